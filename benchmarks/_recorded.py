"""Recorded sweeps, for `benchmarks.time_left`: what a record held at any moment of its sweep."""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.ranking import RankedTrials
from sweeps.record.record import Record
from sweeps.record.trials import EpochRow, Status, TrialRow

FILE = Path(__file__).parent / "data" / "recorded_sweeps.json.gz"
BUSY, QUIET_S = "busy", 20.0
"""A real sweep is busy where its first epoch came later: other programs used the same machine, in turns."""
SETTINGS = (
    "searcher", "scheduler", "max_epochs", "grace_epochs", "reduction_factor", "num_trials", "seed"
)  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """One trial of a recorded sweep; times in seconds since the sweep began."""

    start: float
    end: float | None
    status: Status
    seed: int
    epochs: Sequence[tuple[float, float, float]]
    """Of each epoch: when it was reported, how many seconds it took, and its score."""
    confirms: int | None = None
    """The trial that it reruns."""


@dataclass(frozen=True)
class Recorded:
    """A sweep from its beginning to its end."""

    name: str
    kind: str
    """real, or BUSY."""
    settings: Mapping[str, Any]
    slots: int
    """Trials at a time."""
    total_s: float
    """From the beginning to the end, with the score on the test rows, if there is one."""
    trials: Sequence[Trial]
    mode: str = "max"
    confirm: tuple[int, int] | None = None
    """Trials that are rerun, and seeds."""

    @property
    def config(self) -> SweepConfig:
        return SweepConfig.from_settings(metric="score", mode=self.mode, **self.settings)

    @property
    def scheduler(self) -> Any:
        return plugins.find("scheduler", self.settings["scheduler"])


class Past(RankedTrials):
    """The record of a sweep as it was at a moment, in seconds since the sweep began."""

    def __init__(self, sweep: Recorded, moment: float) -> None:
        confirm = None if sweep.confirm is None else dict(zip(("top", "seeds"), sweep.confirm, strict=True))
        about = {"metric": "score", "mode": sweep.mode, "seed": sweep.settings["seed"]}
        about |= {"runs": [{"started": 0.0}], "planned": [sweep.settings["num_trials"]], "confirm": confirm}
        super().__init__(about)
        begun = [trial for trial in sweep.trials if trial.start <= moment]
        reports = []
        for number, trial in enumerate(begun):
            self._list(TrialRow(number, {}, trial.seed, trial.start, confirms=trial.confirms))
            reports += [(at, number, s, score) for at, s, score in trial.epochs if at <= moment]
        for at, number, seconds, score in sorted(reports):
            row = self.trials[number]
            row.epochs[len(row.epochs) + 1] = EpochRow(score, {}, seconds, at, at)
            self._rank_epoch(row, 0, len(row.epochs), row.epochs[len(row.epochs)])
        for row, trial in zip(self.trials, begun, strict=True):
            if trial.end is not None and trial.end <= moment and trial.status != "unfinished":
                row.status, row.end = trial.status, trial.end
                self._settle(row)


def of_folder(folder: Path, slots: int) -> Recorded:
    """A real sweep that ran at a stretch and has ended.

    Raises:
        ValueError: it was resumed, or has not ended.
    """
    record = Record.read(folder)
    info, settings = record.info, record.info.identity["settings"]
    if len(info.runs) != 1 or info.outcome != "finished" or info.runs[0].started is None:
        raise ValueError(f"{folder}: only a sweep that ran at a stretch and has ended can be replayed")
    began = info.runs[0].started
    trials = [
        Trial(
            start=round(trial.start - began, 3),
            end=None if trial.end is None else round(trial.end - began, 3),
            status=trial.status,
            seed=trial.seed,
            confirms=trial.confirms,
            epochs=[
                (round(row.time - began, 3), round(row.seconds, 3), round(row.score, 5))
                for row in trial.epochs.values()
            ],
        )
        for trial in record.trials
    ]
    return Recorded(
        name=folder.name,
        kind=BUSY if min(trial.epochs[0][0] for trial in trials if trial.epochs) > QUIET_S else "real",
        settings={name: settings[name] for name in SETTINGS} | {"num_trials": record.planned_trials[-1]},
        slots=slots,
        total_s=round(info.elapsed_s, 3),
        trials=trials,
        mode=info.objective.mode,
        confirm=None if info.confirm is None else (info.confirm.top, info.confirm.seeds),
    )


def save(sweeps: Iterable[Recorded], path: Path = FILE) -> None:
    """Write sweeps into a file."""
    text = json.dumps([dataclasses.asdict(sweep) for sweep in sweeps], separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def load(path: Path = FILE) -> list[Recorded]:
    """The sweeps of a file."""
    return [_sweep(each) for each in json.loads(gzip.decompress(path.read_bytes()))]


def _sweep(content: Mapping[str, Any]) -> Recorded:
    confirm = content["confirm"]
    trials = [Trial(**trial) for trial in content["trials"]]
    return Recorded(**{**content, "trials": trials, "confirm": None if confirm is None else tuple(confirm)})
