"""The only code that touches storage, the Spark session and the leases."""
