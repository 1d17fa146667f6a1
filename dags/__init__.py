"""When things run: one thin file per pipeline, built by the factory."""
