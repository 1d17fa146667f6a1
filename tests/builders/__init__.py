"""Builders of test rows: the defaults are valid, a test names only what it is about."""
