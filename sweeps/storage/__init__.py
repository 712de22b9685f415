"""Checkpoints and data sets: a folder, SFTP, S3; their retention and the disk."""
