"""Who prunes: one file per scheduler.

The contract: `build(config, record) -> TrialScheduler`, and `describe(config) -> str`, one line for
the plan. A trial is judged by what the record holds, so a scheduler needs no memory of its own.
"""
