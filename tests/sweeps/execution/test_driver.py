"""The context of a sweep that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from tests.support.contexts import context_of, said
from tests.support.nodes import cluster_of


def test_as_many_trials_fit_as_the_pcs_hold_and_never_none(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {"metric": "m"})
    cluster = cluster_of((4, 1), (7, 2))
    context = context_of(tmp_path, record, SweepConfig.from_settings(cpus_per_trial=2), cluster)
    assert [context.slots(gpus) for gpus in (0.0, 0.5, 1.0)] == [5, 5, 3]
    assert context.slots(8.0) == 1


def test_a_terminal_that_is_gone_ends_no_sweep(tmp_path: Path) -> None:
    context = context_of(tmp_path, Record.create(tmp_path, "s", "max", {"metric": "m"}), SweepConfig())
    context.say("[bold]trial 3[/bold] is a name, and no markup")
    assert said(context) == ["[bold]trial 3[/bold] is a name, and no markup"]
    context.console.file = full = Path("/dev/full").open("w")  # noqa: SIM115  (it can't be closed in peace)
    context.say("nobody reads this")
    with pytest.raises(OSError, match="No space left"):
        full.close()
