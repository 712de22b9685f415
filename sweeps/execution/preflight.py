"""Before the first trial: does the largest point train, and what does it take?

It is trained in the process of the first trial: Python, PyTorch and the data are loaded for that as well.
What was found is in the record: a resumed sweep does not repeat it.

The largest point is the one that takes the most memory and time, as far as the space tells. A whole number is
mostly a size (rows of a batch, width, layers) and has its largest value. A float mostly is not, and takes the
middle of its range. Choices that are no numbers, kinds of layers say, are drawn.
"""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ray
from ray.tune.experiment import Trial

from sweeps.common.errors import folded, place_in
from sweeps.common.formatting import GB, count, duration, pairs, size
from sweeps.common.param_types import refusal
from sweeps.common.yaml_values import ParamValue
from sweeps.execution.faults.full_gpus import FullGpus
from sweeps.execution.run_context import DriverCallback, RunContext
from sweeps.execution.trial_actors import Asked, TrialActor, TrialActors
from sweeps.kinds.trainable import LightningTrainable
from sweeps.plan.describe import describe_disk
from sweeps.record.sweep_info import Outcome
from sweeps.space.numeric_range import Range
from sweeps.space.point import InvalidPoint, Point, Space, TrialProxy
from sweeps.trial.messages import Failed, Finding, OutOfMemory

KEY = "preflight"
"""Of the record: what was found."""
DRAWS = 200
"""Points that are looked at, and as many random ones: the largest values may be no point."""


class Preflight(DriverCallback):
    """Has the first process of a run train the first steps of the largest point, and tells what it finds."""

    def __init__(self, context: RunContext, processes: TrialActors, full_gpus: FullGpus) -> None:
        self._context, self._processes, self._full_gpus = context, processes, full_gpus
        is_known = KEY in context.record.about or context.record.has_epochs
        has_steps = all(isinstance(model.trainable, LightningTrainable) for model in context.plan.models)
        self._point = (
            None if is_known or not (has_steps and context.config.preflight) else _largest_point(context)
        )
        self._asked: TrialActor | None = None

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Ask the process of the first trial: Tune asks it for an epoch after this."""
        process, point = self._processes.actor_of(trial), self._point
        if process is None or point is None:
            return
        self._point = None
        config = {"trainable": point.trainable, "params": dict(point.params), "fixed": dict(point.fixed)}
        findings = process.handle.preflight.remote({**config, "seed": self._context.config.seed})
        several = len(self._context.config.trainables) > 1
        process.preflight = Asked(findings, _point_in_words(point.trainable, point.params, several))
        self._asked = process

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Tell what was found, or end the sweep where nothing trains."""
        process = self._asked
        if process is None or process.preflight is None or not process.preflight.is_answered:
            return
        try:
            found: list[Finding] = ray.get(process.preflight.findings)
        except ray.exceptions.RayError:  # it raised, and the trial does so, too
            found = []
        process.preflight, process.silent_s, self._asked = None, 0.0, None
        if not found or not self._context.end.is_running:
            return
        last, is_certain = found[-1].end, not self._context.record.has_epochs and not found[-1].is_last
        if is_certain and isinstance(last, Failed):
            where = ""
            if not last.is_user_error:
                self._context.say(folded(last.traceback))
                where = place_in(last.traceback)
            on = f" on {found[-1].pc}" if not self._context.cluster.is_alone else ""
            self._context.end.stop(Outcome.ERROR, f"preflight{on}: {last.reason}{where}")
            return
        if isinstance(last, OutOfMemory) and (who := self._full_gpus.others_in_words(last)):
            point = _point_in_words(found[-1].trainable, found[-1].params, several=False)
            self._context.say(f"Preflight   {point}: not known, since memory ran out. {who}")
            return
        told = [*lines(self._context, found)]
        self._context.record.note(KEY, told)
        for line in told:
            self._context.say(line)


def _largest_point(context: RunContext) -> Point | None:
    spaces = {model.name: model.space for model in context.plan.models}

    def is_refused(point: Point) -> bool:
        values = {**point.fixed, **point.params}
        is_no_point = refusal(spaces[point.trainable].params_class, values)
        return bool(is_no_point) or context.plan.refusal(point) is not None

    return largest_point(context.plan.space, context.config.seed, is_refused)


def lines(context: RunContext, found: Sequence[Finding]) -> Iterator[str]:
    """What was found, and what it says of the sweep."""
    several, on_pc = len(context.config.trainables) > 1, not context.cluster.is_alone
    for each in found:
        point = _point_in_words(each.trainable, each.params, several)
        yield f"Preflight   {point}: {_shown(each, on_pc)}"
    slowest = max((each.epoch_s for each in found if each.epoch_s is not None), default=None)
    if slowest is not None:
        slots = context.slots(context.gpus_per_trial)
        epochs = context.plan.scheduler.expected_epochs(context.config)
        at_a_time = min(slots, context.config.num_trials or slots)
        whole = _seconds(slowest * max(epochs / at_a_time, context.config.max_epochs))
        yield (
            f"            At that speed the {count(epochs, 'epoch')} of the sweep take about {whole}, "
            f"{count(at_a_time, 'trial')} at a time"
        )
    if largest_bytes := max((each.checkpoint_bytes for each in found), default=0):
        yield f"            Disk: {describe_disk(context.plan, largest_bytes)}"


def _point_in_words(trainable: str, params: Mapping[str, ParamValue], several: bool) -> str:
    """By what makes it large, if there is any."""
    telling = {name: value for name, value in params.items() if not isinstance(value, float)}
    return ", ".join([*([trainable] if several else []), pairs(telling or params)])


def _shown(finding: Finding, on_pc: bool) -> str:
    where = f"{finding.device} of {size(finding.device_gb * GB)}" if finding.device else "the CPU"
    where += f" of {finding.pc}" if on_pc else ""
    if isinstance(end := finding.end, OutOfMemory):
        becomes = "is infeasible:" if end.micro_batch is None else "runs"
        return f"on {where}, such a trial {becomes} {end.reason}{end.caution}"
    if isinstance(end, Failed):
        return f"{f'on {where}, ' if on_pc else ''}such a trial will fail: {end.reason}"
    epoch = "" if finding.epoch_s is None else f", about {_seconds(finding.epoch_s)} an epoch"
    return f"{size(finding.memory_gb * GB)} on {where}{epoch}"


def _seconds(seconds: float) -> str:
    return duration(seconds) if seconds >= 10 else f"{seconds:.2g} s"


class _Largest(TrialProxy):
    """Answers with the largest whole numbers, and with random choices of other kinds."""

    def __init__(self, generator: random.Random) -> None:
        self._generator = generator

    def _number(self, name: str, asked: Range) -> float:
        return asked.nearest(asked.high if asked.is_whole else asked.at(0.5))

    def _choice(self, name: str, choices: Sequence[Any]) -> Any:
        if all(isinstance(each, int) and not isinstance(each, bool) for each in choices):
            return max(choices)
        return self._generator.choice(choices)


def largest_point(space: Space, seed: int, is_refused: Callable[[Point], bool]) -> Point | None:
    """The point that costs most; None where all that were looked at are refused."""
    allowed = (each for each in _candidates(space, seed) if not is_refused(each))
    return max(allowed, key=_size, default=None)


def _candidates(space: Space, seed: int) -> Iterator[Point]:
    generator = random.Random(seed)
    for number in range(2 * DRAWS):
        with contextlib.suppress(InvalidPoint, ValueError, LookupError):  # values may exclude one another
            yield space.suggest(_Largest(generator)) if number < DRAWS else space.draw((seed, number - DRAWS))


def _size(point: Point) -> float:
    """By which points are compared: large where all their whole numbers are."""
    numbers = (value for value in point.params.values() if isinstance(value, int) and value > 0)
    return math.prod(math.log1p(number) for number in numbers)
