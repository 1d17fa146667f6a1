"""The vocabulary of Assay: tables, pipelines, triggers, gates, books, settings. Pure Python, importable anywhere."""
