"""Schedulers, which prune trials: one file each.

The contract: `build(config, record) -> TrialScheduler`; `describe(config) -> str`, one line for the
plan; and `ends_at(config, record, number, epoch) -> bool`, whether a trial that reported this epoch,
its last one, was stopped there. A trial is judged by what the record holds, so a scheduler needs no
memory of its own. One without `ends_at` works, but its sweep can't be resumed.

One that pauses trials also has `waits_at(config, record, number, epoch) -> bool`, whether a trial that
reported this epoch is paused there: it leaves its slot to others. Optional, for the plan and the time
that is left: `expected_epochs(config) -> int`, those that all trials train together.
"""
