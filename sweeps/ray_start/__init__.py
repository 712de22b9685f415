"""Start or join Ray, for sweeps and for the preparation of data: token, connection, what is never copied."""
