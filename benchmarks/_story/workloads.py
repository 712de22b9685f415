"""What is trained: 32 configurations of one network, on data as one reads it first and on prepared rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks._job import MODULES

REPEATED = ("prepare", "pruned", "proposed")
"""Steps that are taken as often as `repeats` says."""


@dataclass(frozen=True)
class Workload:
    """A network, its data, and how much of each rung is timed."""

    name: str
    """On the screen and in the results."""
    job_model: str
    """Of `benchmarks._job.MODULES`."""
    fixed: Mapping[str, Any]
    """Hyperparameters of all configurations. None is swept that an epoch's time depends on: so any epochs of
    any configurations stand for all."""
    space_flags: tuple[str, ...]
    """What is swept, for `sweeps run`."""
    naive: Mapping[str, Any]
    """How rows are loaded at first."""
    tuned: Mapping[str, Any]
    """How a single process loads them best."""
    val_rows: int
    test_rows: int
    minutes: Mapping[str, float] = field(default_factory=dict)
    """Step to what it usually takes on 2 cores, with 3 repeats."""
    configurations: int = 32
    max_epochs: int = 50
    sample_trials: int = 3
    sample_epochs: int = 3
    """Of each of them, of a rung that is computed from a few epochs."""
    repeats: int = 3
    """Of a rung that is measured in full in minutes."""

    def minutes_of(self, step: str) -> float:
        """What a step usually takes on 2 cores; 0 where that is not known."""
        share = self.repeats / 3 if step in REPEATED else 1.0
        return share * self.minutes.get(step, 0.0)

    @property
    def trainable(self) -> str:
        """What `--trainable` calls it."""
        return MODULES[self.job_model].removeprefix("trainables.")

    @property
    def epochs(self) -> int:
        """Of the whole sweep, if nothing is pruned."""
        return self.configurations * self.max_epochs

    @property
    def batch(self) -> Mapping[str, Any]:
        """The hyperparameters among `tuned`, which trials at a time have, too: they leave out loader workers,
        for the other trials need the cores."""
        return {name: value for name, value in self.tuned.items() if name != "loader_workers"}

    @property
    def keeps_batch(self) -> bool:
        """Whether the batch stays as it was at first, and with it what a configuration comes to."""
        return all(self.naive.get(name) == value for name, value in self.batch.items())


FASHION_CNN = Workload(
    name="fashion_cnn",
    job_model="fashion_files",
    fixed={"rows": 6_000},
    space_flags=(
        "--ranges", "lr=1e-3..0.3:log", "momentum=0.5..0.95", "weight_decay=1e-6..1e-2:log",
        "dropout=0..0.5:0.1",
    ),
    naive={"batch_size": 32, "loader_workers": 0},
    tuned={"batch_size": 128, "loader_workers": 0},
    val_rows=2_000,
    test_rows=10_000,
    minutes={
        "prepare": 1.5, "start": 21, "naive": 0.5, "prepared": 0.5, "loader": 0.5, "precision": 0,
        "packed": 14, "pruned": 8, "proposed": 7, "shell": 0.5, "ray_tune": 7, "optuna": 3,
    },
)  # fmt: skip
FACES = Workload(
    name="faces",
    job_model="faces",
    fixed={"width": 8},  # of 16 an epoch takes twice as long
    space_flags=("--freeze", "width=8"),
    naive={"batch_size": 32, "loader_workers": 0},
    tuned={"batch_size": 32, "loader_workers": 2},
    val_rows=128,
    test_rows=128,
    minutes={
        "prepare": 1.5, "start": 25, "naive": 4, "prepared": 0.5, "loader": 0.5, "precision": 0, "packed": 0,
        "pruned": 12, "proposed": 33, "shell": 0.5, "ray_tune": 14, "optuna": 9,
    },
    sample_epochs=2,
)  # fmt: skip
WORKLOADS = {each.name: each for each in (FASHION_CNN, FACES)}


def smallest(workload: Workload) -> Workload:
    """The same with so little to train that it says nothing, and takes a minute."""
    fixed = {**workload.fixed, "rows": 300} if "rows" in workload.fixed else workload.fixed
    return dataclasses.replace(
        workload,
        fixed=fixed,
        val_rows=100 if "rows" in workload.fixed else workload.val_rows,
        minutes={},
        configurations=4,
        max_epochs=4,
        sample_trials=2,
        sample_epochs=2,
        repeats=1,
    )
