"""Start or join Ray: its token, and the connection. For sweeps and for the preparation of data."""
