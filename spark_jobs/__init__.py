"""Assay: how the data moves. Jobs, pipelines, transforms, storage and the command line."""
