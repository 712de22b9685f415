"""Raw files to Parquet shards to batches."""
