"""Entry points, in data order: discover, ingest_bronze, build_silver, build_gold, gate, report."""
