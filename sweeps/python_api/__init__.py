"""Sweeps that Python code runs, in a script or in a notebook."""
