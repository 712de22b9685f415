"""The report of a sweep: one HTML page."""
