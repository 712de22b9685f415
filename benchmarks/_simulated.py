"""Sweeps by the clock of `benchmarks._clock`, for `benchmarks.time_left`: real searchers and schedulers, and
trials that take the time of a machine that is drawn at random.

Curves are those of `benchmarks.search`. Seconds per epoch are measured for fashion_cnn, and scaled; for
lcbench they grow with the width and the depth, and fall with the batch size. To them comes what a real sweep
has: processes that start, trials that begin, first epochs that compile, noise, trials that diverge.
"""

from __future__ import annotations

import contextlib
import heapq
import io
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from benchmarks import lcbench
from benchmarks._clock import Clock
from benchmarks._problems import Curve, FashionCnn, Lcbench, Problem
from benchmarks._recorded import Recorded
from benchmarks._recorded import Trial as Row
from sweeps.record.trials import Status

if TYPE_CHECKING:
    from sweeps.record.record import Record

PAIRS = (
    ("gp", "halving"), ("random", "none"), ("gp", "halving"), ("tpe", "asha"), ("random", "halving"),
    ("random", "hyperband"), ("tpe", "halving"), ("tpe", "none"), ("gp", "halving"), ("bohb", "bohb"),
)  # fmt: skip
"""Searcher and scheduler, in turn: the default most often."""
SEEDS = {"fit": 0, "check": 1_000}
DIVERGES = 0.04
"""Share of the trials."""


@dataclass(frozen=True)
class Machine:
    """How long things take, in seconds."""

    epoch_s: float
    """An epoch of an average trial."""
    spread: float
    """Standard deviation of the logarithm over trials, besides what their hyperparameters do."""
    noise: float
    """The same over epochs."""
    launch_s: float
    """A process that starts."""
    begin_s: float
    """A trial that begins or continues."""
    first_epoch_s: float
    """What a first epoch takes more."""
    width: float
    """By which power the seconds of lcbench grow with the width."""
    batch_size: float
    """By which they fall with the batch size."""

    @classmethod
    def draw(cls, source: Random, kind: str) -> Machine:
        is_long = kind == "long"
        epoch_s = _log_uniform(source, *((5.0, 300.0) if is_long else (0.2, 2.0)))
        return cls(
            epoch_s=epoch_s,
            spread=source.uniform(0.05, 0.3),
            noise=source.uniform(0.02, 0.2),
            launch_s=source.uniform(5.0, 40.0) if is_long else source.uniform(4.0, 10.0),
            begin_s=_log_uniform(source, *((0.05, 5.0) if is_long else (0.03, 0.3))),
            first_epoch_s=epoch_s * source.choice([0.0, 0.0, 0.2, 1.0]),
            width=source.uniform(0.0, 0.5),
            batch_size=source.uniform(0.0, 0.4),
        )


@dataclass(frozen=True)
class Asked:
    """What is simulated."""

    name: str
    kind: str
    problem: Problem
    searcher: str
    scheduler: str
    num_trials: int
    slots: int
    seed: int
    machine: Machine
    confirm: tuple[int, int] | None
    grace_epochs: int
    max_epochs: int


class Timed:
    """A problem, on a machine."""

    def __init__(self, asked: Asked, source: Random) -> None:
        self._asked, self._source = asked, source
        self._launches = asked.slots
        self.seconds: dict[Any, Sequence[float]] = {}
        """Point to how long its epochs take, without the start."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._asked.problem, name)

    def curve(self, params: Mapping[str, Any]) -> Curve:
        """Scores up to the one that is not a number, and the seconds by the clock."""
        machine, source = self._asked.machine, self._source
        curve = self._asked.problem.curve(params)
        last = min(len(curve.scores), self._asked.max_epochs)
        seconds, scores = self._seconds(curve)[:last], list(curve.scores)[:last]
        seconds[0] += machine.first_epoch_s
        if source.random() < DIVERGES:
            scores[source.randrange(1, 4) :] = [math.nan]
        by_clock = list(seconds[: len(scores)])
        for epoch in (0, 3, 9):  # after a rung it may have been paused
            if epoch < len(by_clock):
                by_clock[epoch] += machine.begin_s * math.exp(source.gauss(0, 0.3))
        if self._launches:
            by_clock[0] += machine.launch_s * math.exp(source.gauss(0, 0.1))
            self._launches -= 1
        self.seconds[curve.point] = seconds
        return Curve(curve.point, scores, by_clock)

    def _seconds(self, curve: Curve) -> list[float]:
        machine, source = self._asked.machine, self._source
        if isinstance(self._asked.problem, FashionCnn):
            return [3 * machine.epoch_s * seconds for seconds in curve.seconds]  # a third of a second each
        params = dict(curve.point)
        epoch_s = machine.epoch_s * (params["max_units"] / 256) ** machine.width
        epoch_s *= (90 / params["batch_size"]) ** machine.batch_size * (params["num_layers"] / 3) ** 0.3
        epoch_s *= math.exp(source.gauss(0, machine.spread))
        return [epoch_s * math.exp(source.gauss(0, machine.noise)) for _ in curve.scores]


def asked(of_set: str, kind: str, count: int) -> list[Asked]:
    """The sweeps of a set, "fit" or "check", which share no task and no seed."""
    source = Random(f"{of_set} {kind}")
    tasks = list(lcbench.tasks()[f"to_{of_set}"])
    found = []
    for nth in range(count):
        searcher, scheduler = PAIRS[nth % len(PAIRS)]
        most = 36 if scheduler == "none" else 48 if searcher == "gp" else 96
        is_measured = source.random() < 0.4
        slots = source.choice([1, 2, 4, 4, 8] if kind == "long" else [1, 2, 2, 4])
        found.append(
            Asked(
                name=f"{of_set}_{kind}_{nth:02d}_{searcher}_{scheduler}_{slots}",
                kind=kind,
                problem=FashionCnn(int(of_set == "check"))
                if is_measured
                else Lcbench(tasks[nth % len(tasks)]),
                searcher=searcher,
                scheduler=scheduler,
                num_trials=min(most, source.choice([24, 24, 24, 36, 48, 96])),
                slots=slots,
                seed=SEEDS[of_set] + nth,
                machine=Machine.draw(source, kind),
                confirm=source.choice([None, None, None, (3, 3), (2, 2)]),
                grace_epochs=source.choice([3, 3, 3, 1]),
                max_epochs=27 if is_measured else source.choice([27, 27, 27, 50]),
            )
        )
    return found


def run(asked: Asked) -> Recorded:
    """Simulate a sweep."""
    from sweeps.config.sweep_config import SweepConfig
    from sweeps.plan import build, folder, resume

    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=base) as place, contextlib.redirect_stdout(io.StringIO()):
        config = SweepConfig.of(
            trainable=asked.problem.trainable, search_space=f"{asked.problem.trainable}_space",
            params=dict(asked.problem.params), searcher=asked.searcher, scheduler=asked.scheduler,
            num_trials=asked.num_trials, max_epochs=asked.max_epochs, grace_epochs=asked.grace_epochs,
            seed=asked.seed, gpus_per_trial=0, results_dir=place, name="sweep",
        )  # fmt: skip
        plan = build.make_plan(config)
        with folder.opened(plan) as record:
            resume.begin_run(plan, record)
            searcher = plan.searcher.build(plan.config, plan.space, record)
            searcher.slots, searcher.waits = asked.slots, plan.waits(record)
            scheduler = plan.scheduler.build(plan.config, record)
            return _recorded(asked, record, searcher, scheduler)


def _recorded(asked: Asked, record: Record, searcher: Any, scheduler: Any) -> Recorded:
    source = Random(asked.seed)
    problem: Any = Timed(asked, source)
    starts: dict[int, float] = {}
    ends: dict[int, float] = {}
    epochs: dict[int, list[tuple[float, float, float]]] = {}
    seconds_of: dict[int, Sequence[float]] = {}

    def report(trial: Any, result: dict[str, Any]) -> None:
        record.report(trial.config["number"], result["epoch"], result["score"], {}, 0.0)

    def end(trial: Any, result: dict[str, Any]) -> None:
        number, is_last = trial.config["number"], result["epoch"] == asked.max_epochs
        sound: Status = "finished" if is_last else "pruned"
        record.end(number, sound if math.isfinite(result["score"]) else "diverged")
        ends[number] = clock.now

    clock, before = Clock(searcher, scheduler, problem, asked.slots, report, end), 0.0
    for epoch in clock.run():
        for trial in record.trials[len(starts) :]:
            starts[trial.number] = before
        number, of_point = int(epoch.trial), problem.seconds[epoch.point]
        seconds_of[number] = of_point
        epochs.setdefault(number, []).append((clock.now, of_point[epoch.epoch - 1], epoch.score))
        before = clock.now
    rows = [
        Row(starts[trial.number], ends[trial.number], trial.status, trial.seed, epochs[trial.number])
        for trial in record.trials
    ]
    rows += _reruns(asked, record, rows, seconds_of, clock.now, source)
    total_s = max(row.end or 0.0 for row in rows) + 0.6 * asked.machine.launch_s
    settings = {
        "searcher": asked.searcher, "scheduler": asked.scheduler, "max_epochs": asked.max_epochs,
        "grace_epochs": asked.grace_epochs, "reduction_factor": 3, "num_trials": asked.num_trials,
        "seed": asked.seed,
    }  # fmt: skip
    return Recorded(asked.name, asked.kind, settings, asked.slots, total_s, rows, confirm=asked.confirm)


def _reruns(
    asked: Asked,
    record: Record,
    rows: Sequence[Row],
    seconds_of: Mapping[int, Sequence[float]],
    begin: float,
    source: Random,
) -> list[Row]:
    """The reruns of the best trials, in processes that start anew."""
    from sweeps.record import reruns

    top, seeds = asked.confirm or (0, 0)
    free, machine = [begin] * asked.slots, asked.machine
    found: list[Row] = []
    for seed in reruns.seeds(asked.seed, seeds):
        for number in record.leaders(top):
            start = free[0]
            now = start + (machine.launch_s if len(found) < asked.slots else machine.begin_s)
            epochs = []
            for seconds in seconds_of[number]:
                again = seconds * math.exp(source.gauss(0, 0.08))
                now += again
                epochs.append((now, again, rows[number].epochs[-1][2]))
            found.append(Row(start, now, "finished", seed, epochs, number))
            heapq.heapreplace(free, now)
    return found


def _log_uniform(source: Random, low: float, high: float) -> float:
    return math.exp(source.uniform(math.log(low), math.log(high)))
