"""One training as a Run: by Lightning, or by a function."""
