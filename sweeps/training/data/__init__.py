"""Raw files to shards of rows to batches."""
