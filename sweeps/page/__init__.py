"""The page of all sweeps in the browser: it reads their records, and types the commands that steer them."""
