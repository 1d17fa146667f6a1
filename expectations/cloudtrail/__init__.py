"""Suites for the CloudTrail tables."""
