"""Set-up of one machine: Java, jars, the class-data archive. Called by bootstrap.sh once the Python environment stands."""
