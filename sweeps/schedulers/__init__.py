"""Who prunes: one file per scheduler.

The contract: `build(config, record) -> TrialScheduler`; `describe(config) -> str`, one line for the
plan; and `ends_at(config, record, number, epoch) -> bool`, whether a trial that reported this epoch,
its last one, was stopped there. A trial is judged by what the record holds, so a scheduler needs no
memory of its own. One without `ends_at` works, but its sweep can't be resumed.
"""
