"""Expectations that Great Expectations does not ship."""
