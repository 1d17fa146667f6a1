"""The `assay` command."""
