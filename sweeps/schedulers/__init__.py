"""Schedulers, which prune trials: one file each.

A scheduler defines `build(config, record) -> TrialScheduler`; `describe(config) -> str`, one line for the
plan; and `ends_at(config, record, number, epoch) -> bool`, whether a trial was stopped at this epoch, the
last that it reported. It judges a trial by the record alone: whatever else it keeps, for speed, is found in
the record again. Without `ends_at` it works, but its sweep can't be resumed.

A scheduler that pauses trials also defines `waits_at(config, record, number, epoch) -> bool`, whether a
trial is paused at this epoch and leaves its slot to others.

`TAKES_OBJECTIVES = True` says that it takes several objectives: it orders trials by `record.losses_at`.

Two are optional: `most_waiting(config, running) -> int`, how many are paused at a time, at most, while so
many train (the plan tells the disk space by it), and `cohorts(config, planned_trials) -> list[Cohort]`, how
many trials train how far (`search/cohorts.py`; the plan and the time left use it).
"""
