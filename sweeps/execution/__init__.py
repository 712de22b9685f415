"""Tune's loop and its end: tuner, recorder, requeue, console, quarantine, winner, notification."""
