"""One package per source: what is special about it, and nothing else."""
