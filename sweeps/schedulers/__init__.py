"""Schedulers, which prune trials: one file each.

A scheduler is a class `Scheduler` that extends `PruningMethod` (`sweeps/search/record_scheduler.py`): it
describes itself for the plan, and decides from the record whether a trial continues, pauses or stops. The
other methods have defaults: how many trials train how far, and how many wait at a time.
"""
