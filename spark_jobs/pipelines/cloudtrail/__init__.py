"""AWS CloudTrail audit logs."""
