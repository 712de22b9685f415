"""Confirmation: when the search has ended, its best trials are trained again, from scratch, with new seeds.

Reruns are trials of the record, but not of the search: rungs, searchers and leaders ignore them. The record
alone decides which reruns remain, so a stopped sweep continues here.
"""

from __future__ import annotations

from sweeps.common.formatting import count
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.record.sweep_info import Confirmation


def asked(config: SweepConfig) -> Confirmation | None:
    """The confirmation that a config asks for."""
    return Confirmation(config.confirm_top, config.confirm) if config.confirm else None


def describe(config: SweepConfig) -> str:
    """The reruns and their cost, for the plan."""
    if config.objectives.are_several:
        seeds = count(config.confirm, "new seed")
        text = f"train each trial of the front again with {seeds}, {config.max_epochs} epochs each"
        return text + _in_budget(config)
    top, epochs = min(config.confirm_top, config.num_trials or config.confirm_top), config.max_epochs
    runs = top * config.confirm
    which = f"the best {count(top, 'trial')}" if top > 1 else "the best trial"
    each = " each" if top > 1 else ""
    text = (
        f"train {which} again with {count(config.confirm, 'new seed')}{each}: "
        f"{runs} x {epochs} = {runs * epochs:,} more epochs"
    )
    return text + _in_budget(config)


def _in_budget(config: SweepConfig) -> str:
    budget = config.time_budget_hours
    return "" if budget is None else f"; --time-budget-hours {budget:g} includes them"


def give_up_others(record: Record) -> list[int]:
    """End the reruns that are no longer asked for, as other trials lead after more search; their numbers."""
    top, seeds = record.wanted_reruns()
    given_up = [r.number for r in record.unfinished_reruns if r.confirms not in top or r.seed not in seeds]
    for number in given_up:
        record.end(number, "pruned", f"trial {record.trials[number].confirms} is no longer to be confirmed")
    return given_up
