"""Tune's loop and its end: tuner, recorder, console, quarantine, winner, notification."""
