"""Several workers in one run: their launch, their strategy, their batch."""
