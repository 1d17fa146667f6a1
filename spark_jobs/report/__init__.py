"""The quality report: one self-contained page per run, an index, JSON beside them."""
