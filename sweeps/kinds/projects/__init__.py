"""Trainings that a project's own files configure: it is run as it is, up to a point, with other settings."""
