"""Confirmation: when the search has ended, its best trials are trained again, from scratch, with new seeds.

Reruns are trials of the record like others, but none of the search: rungs, searchers and leaders do not know
them. What is to be done follows from the record alone, so a sweep that was stopped here goes on here.
"""

from __future__ import annotations

from sweeps.common.formatting import count
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.record.sweep_info import Confirmation


def asked(config: SweepConfig) -> Confirmation | None:
    """What is asked for."""
    return Confirmation(config.confirm_top, config.confirm) if config.confirm else None


def is_other(config: SweepConfig, record: Record) -> bool:
    """Whether something else is asked for than the record has been told."""
    return asked(config) != record.info.confirm


def describe(config: SweepConfig) -> str:
    """What it will cost, for the plan."""
    top = min(config.confirm_top, config.num_trials or config.confirm_top)
    runs = top * config.confirm
    which = f"the best {count(top, 'trial')}" if top > 1 else "the best trial"
    each = " each" if top > 1 else ""
    budget = config.time_budget_hours
    within = (
        "" if budget is None else f"; in the time that the search leaves of --time-budget-hours {budget:g}"
    )
    return (
        f"train {which} again with {count(config.confirm, 'new seed')}{each}: "
        f"{runs} x {config.max_epochs} = {runs * config.max_epochs:,} more epochs{within}"
    )


def give_up_others(record: Record) -> list[int]:
    """End the reruns that nobody asks for any more (the search went on, and others lead); their numbers."""
    top, each = record.wanted_reruns()
    given_up = [r.number for r in record.unfinished_reruns if r.confirms not in top or r.seed not in each]
    for number in given_up:
        record.end(number, "pruned", f"trial {record.trials[number].confirms} is no longer to be confirmed")
    return given_up
