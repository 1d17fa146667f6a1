"""Pure functions from frame to frame, shared by all pipelines."""
