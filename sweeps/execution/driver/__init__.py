"""Tune's loop over the trials of a sweep, and the callbacks that record and steer it."""
