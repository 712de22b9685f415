"""Raw files to Parquet shards to batches, and their copies on other PCs."""
