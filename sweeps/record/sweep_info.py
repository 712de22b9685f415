"""What a record holds of its sweep, besides the trials."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeVar, cast

from sweeps.common.objective import Objective, Objectives
from sweeps.config import control_commands
from sweeps.config.sweep_config import SweepConfig
from sweeps.space.point import Point

T = TypeVar("T")
Identity = Mapping[str, Mapping[str, Any]]
"""settings, data (as text), space (hyperparameter to domain, as text), code (file to checksum), versions."""
_PARTS = ("settings", "data", "space", "code", "versions")


FORMAT = 6
"""Version of the record: another one is read as far as it goes, and not resumed."""


class Outcome(StrEnum):
    """What becomes of a run of a sweep, in the words of results and messages."""

    RUNNING = "running"
    FINISHED = "finished"
    WAITING = "waiting"
    """In the queue, for other sweeps. No run ends like that: it is told of one that waits now."""
    PAUSED = "paused"
    OUT_OF_TIME = "out of time"
    INTERRUPTED = "interrupted"
    """By Ctrl-C, or because its process was killed."""
    ERROR = "error"
    """A mistake of the user's that showed only in training."""
    LOST = "lost"
    """The record, weights or `best/` can't be written, no PC is left on which a trial can continue, Ray on
    this PC has ended, or the first trials have all failed alike."""
    CRASHED = "crashed"
    """By an exception. It is told to --notify-command alone."""


@dataclass(frozen=True)
class Run:
    """A start of the sweep: the first one, or a resume."""

    started: float | None = None
    """Seconds since 1970."""
    num_trials: int | None = None
    """Trials asked for in all."""
    changed: Sequence[str] = ()
    """Differences to the run before, one line each."""
    forced: bool = False
    """Whether the sweep was resumed with --force."""
    changed_scores: Sequence[str] = field(default_factory=list)
    """Those of `changed` that the scores of trials depend on: the code that trains, the data and so on."""
    ranges: Mapping[str, Any] | None = None
    """The setting `ranges` as it was at this start; None where an older version began the run."""


@dataclass(frozen=True)
class Steered:
    """A command that the user gave to the sweep, and what was answered."""

    words: Sequence[str]
    """As they were typed: `["stop", "3"]` or `["stop", "trial_0003"]`."""
    answer: str = ""
    time: float = 0.0
    """Seconds since 1970."""
    request: str = ""
    """Name of the request, so that none is carried out twice."""
    point: Mapping[str, Any] = field(default_factory=dict)
    """Of `try`, the fields of a Point."""
    by: str = ""
    """The limit of the sweep that gave it in place of the user, as `--target 0.95`."""
    retried: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Of `retry`, for the number of each trial its last attempt by then, and after which epoch it goes on."""

    ranges: Mapping[str, Any] = field(default_factory=dict)
    """Of `set`, and of a resume with other ones: hyperparameter to its range, as --ranges takes it."""

    @property
    def command(self) -> str:
        return self.words[0]


@dataclass(frozen=True)
class RaisedEpochs:
    """More epochs, as the user asked for them."""

    before: int
    """Epochs of a trial that is never pruned, until then."""
    epochs: int
    schedule: str = ""
    """What becomes of schedules of a learning rate, as --lr-schedule says it; "" where it was not given."""
    time: float = 0.0
    """Seconds since 1970."""


@dataclass(frozen=True)
class ParentInfo:
    """A sweep that this one refines."""

    name: str = "?"
    folder: str | None = None
    """Where it was then."""
    started: float | None = None
    """Seconds since 1970; two sweeps may have the same name."""


@dataclass(frozen=True)
class Confirmation:
    """Reruns that were asked for."""

    top: int
    """Number of the best trials to rerun."""
    seeds: int
    """New seeds for each."""


@dataclass(frozen=True)
class NotedTimeLeft:
    """How long the sweep still takes, as its process has estimated it last."""

    seconds: float
    time: float
    """Of the estimate, in seconds since 1970."""


@dataclass(frozen=True)
class HeldOutScore:
    """Scores on the test rows."""

    run: int | None
    """Number of the trial or rerun whose weights were scored."""
    scores: Mapping[str, float]
    """Metric, as the model logs it in its test, to its value."""
    reported: float | None = None
    """When the epoch of these weights was, in seconds since 1970: a trial that goes on, or is trained again,
    may get other ones."""

    def score(self, metric: str) -> float | None:
        """The metric of an objective on these rows."""
        names = (metric, metric.replace("val", "test"), f"test_{metric}")
        return next((self.scores[name] for name in names if name in self.scores), None)


@dataclass(frozen=True, kw_only=True)
class SweepInfo:
    """What a record holds of its sweep."""

    objectives: Objectives
    """The metric is `score` where the record names none."""
    name: str = ""
    trainables: tuple[str, ...] = ()
    is_of_several: bool = False
    """Whether several trainables competed."""
    seed: int = 0
    max_epochs: int | None = None
    """Epochs of a trial that is never pruned."""
    raised: tuple[RaisedEpochs, ...] = ()
    """How these became more."""
    started: float | None = None
    """Seconds since 1970."""
    format: int = 0
    """Version of the record."""
    identity: Identity
    """What its results depend on."""
    sampled_space: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By trainable, of each space that is a function: hyperparameter to the range of its samples, as text."""
    parents: tuple[ParentInfo, ...] = ()
    runs: tuple[Run, ...] = ()
    baselines: tuple[Point, ...] = ()
    """The defaults of each trainable, which are tried first."""
    note: str = ""
    """Of the user."""
    tags: Sequence[str] = ()
    planned: Sequence[int] = ()
    """Number of trials in all: at first, and each time that it was raised."""
    steered: tuple[Steered, ...] = ()
    confirm: Confirmation | None = None
    outcome: Outcome = Outcome.RUNNING
    """Of its last run."""
    waits_since: float | None = None
    """When it began to wait in the queue, in seconds since 1970; None where it does not, or no longer."""
    waited_s: float = 0.0
    """In the queue, all its runs together."""
    elapsed_s: float = 0.0
    """Run time at its last regular end."""
    time_left: NotedTimeLeft | None = None
    """Of the run that has estimated it last; None before the first epoch."""
    test: HeldOutScore | None = None
    """Of the winner."""
    tests: tuple[HeldOutScore, ...] = ()
    """Of every winner when a run of the sweep ended, in order."""
    without_test: Sequence[str] = ()
    """Trainables that can't be scored on test rows."""

    @property
    def is_of_this_version(self) -> bool:
        """Whether this version can continue the record."""
        return self.format == FORMAT

    @cached_property
    def settings(self) -> SweepConfig:
        """The settings that results depend on, as they were asked for. The others have their defaults here:
        name, confirmation, earlier sweeps and the like are fields of this object."""
        known = SweepConfig.settings().keys() & self.identity["settings"].keys()
        return SweepConfig.from_settings(**{name: self.identity["settings"][name] for name in known})

    @property
    def objective(self) -> Objective:
        """The only one, or the first of several."""
        return self.objectives.first

    @cached_property
    def stopped(self) -> Mapping[int, Steered]:
        """Trials that were stopped, by number, each with the last command that stopped it."""
        stops = (each for each in self.steered if each.command == "stop")
        return {control_commands.parse(each.words).trial: each for each in stops}

    @cached_property
    def range_changes(self) -> tuple[tuple[float, Mapping[str, Any]], ...]:
        """When commands, or resumes, changed ranges, in seconds since 1970, and to which."""
        return tuple((each.time, each.ranges) for each in self.steered if each.ranges)

    @property
    def ended_by_limit(self) -> Steered | None:
        """How a limit of the sweep ended its search last; None where none has."""
        return next((each for each in reversed(self.steered) if each.by), None)

    def code_at(self, moment: float) -> int:
        """Which code a trial was trained with at a moment, in seconds since 1970: 1 until the first resume
        after a change that scores depend on, and so on."""
        changed = (run.started or 0.0 for run in self.runs if run.changed_scores)
        return 1 + sum(started <= moment for started in changed)

    @cached_property
    def tried(self) -> tuple[Point, ...]:
        """The points that the user has chosen, without those that a `finish` gave up."""
        commands = [each.command for each in self.steered]
        after = len(commands) - commands[::-1].index("finish") if "finish" in commands else 0
        return tuple(Point(**each.point) for each in self.steered[after:] if each.command == "try")

    @cached_property
    def paused_at(self) -> float | None:
        """Since when it is paused, in seconds since 1970; None where it is not."""
        last = next((each for each in reversed(self.steered) if each.command in ("pause", "go")), None)
        return last.time if last is not None and last.command == "pause" else None


def parse(about: Mapping[str, Any]) -> SweepInfo:
    """Typed attributes of a record."""
    trainable = about.get("trainable", ())
    several = isinstance(trainable, list)
    raised = tuple(_typed(RaisedEpochs, each) for each in about.get("raised", []))
    identity, test, confirm = about.get("identity", {}), about.get("test"), about.get("confirm")
    time_left = about.get("time_left")
    typed = {
        "objectives": _objectives(about),
        "name": about.get("sweep", ""),
        "trainables": tuple(trainable) if several or not trainable else (trainable,),
        "is_of_several": several,
        "identity": {part: identity.get(part, {}) for part in _PARTS},
        "parents": tuple(_typed(ParentInfo, parent) for parent in about.get("parents", [])),
        "baselines": tuple(Point(**each) for each in about.get("baselines", [])),
        "raised": raised,
        "max_epochs": raised[-1].epochs if raised else about.get("max_epochs"),
        "runs": tuple(_typed(Run, run) for run in about.get("runs", [])),
        "steered": tuple(_typed(Steered, each) for each in about.get("steered", [])),
        "confirm": _typed(Confirmation, confirm) if confirm else None,
        # A word of another version counts as none.
        "outcome": next((each for each in Outcome if each == about.get("outcome")), Outcome.RUNNING),
        "time_left": _typed(NotedTimeLeft, time_left) if time_left else None,
        "test": _test(test) if test else None,
        "tests": tuple(map(_test, about.get("tests", ()))),
    }
    return _typed(SweepInfo, {**about, **typed})


def _objectives(about: Mapping[str, Any]) -> Objectives:
    """`metric` and `mode` are those of the first one."""
    constraints = about.get("constraints", ())
    if several := about.get("objectives"):
        return Objectives.parse(several, None, constraints)
    return Objectives.parse([about.get("metric", "score")], about["mode"], constraints)


def _typed(kind: type[T], content: Mapping[str, Any]) -> T:
    """A dataclass of what it has in a mapping, which may have more."""
    names = {field.name for field in dataclasses.fields(cast(Any, kind))}
    return kind(**{name: value for name, value in content.items() if name in names})


def _test(content: Mapping[str, Any]) -> HeldOutScore:
    about = ("trial", "of_epoch", "reported")  # older versions have written the second one
    scores = {name: score for name, score in content.items() if name not in about}
    return HeldOutScore(content.get("trial"), scores, content.get("reported"))
