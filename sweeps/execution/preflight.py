"""Before the first trial: does the largest trial train, and what does it take?

It runs in the processes that then train the first trials, one for each kind of GPU: Python, PyTorch and the
data are loaded for them as well. Its findings are in the record: a resumed sweep does not repeat it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import ray
from ray.tune.experiment import Trial

from sweeps.common.formatting import GB, count, duration, pairs, size
from sweeps.common.param_types import refusal
from sweeps.common.yaml_values import ParamValue
from sweeps.execution.run_context import DriverCallback, RunContext
from sweeps.execution.trial_actors import Asked, TrialActor, TrialActors
from sweeps.plan import disk
from sweeps.space import largest
from sweeps.space.point import Point
from sweeps.trial.messages import Finding

KEY = "preflight"
"""Of the record: what was found."""
MOST_POINTS = 4
"""That are tried on each kind of GPU."""
MOST_NAMED = 3
"""Further points that are told by their hyperparameters."""


class Preflight(DriverCallback):
    """Has the first processes of a run train the first steps of the largest points, and tells what they find.

    Args:
        driver: of the sweep.
        processes: of its trials.
    """

    def __init__(self, driver: RunContext, processes: TrialActors) -> None:
        self._driver, self._processes = driver, processes
        is_known = KEY in driver.record.about or driver.record.has_epochs
        spaces = {model.name: model.space for model in driver.plan.models}

        def is_refused(point: Point) -> bool:
            values = {**point.fixed, **point.params}
            is_no_point = refusal(spaces[point.trainable].params_class, values)
            return bool(is_no_point) or driver.plan.refusal(point) is not None

        is_left_out = is_known or not driver.config.preflight
        points = [] if is_left_out else largest.points(driver.plan.space, driver.config.seed, is_refused)
        self._points, self._others = points[:MOST_POINTS], points[MOST_POINTS:]
        self._is_over = not points
        self._asked = 0
        """Processes."""
        self._open: dict[Any, TrialActor] = {}
        """By the Ray references to findings that are not there yet."""
        self._found: list[Finding] = []
        """All that was told."""
        self._broken: list[list[Finding]] = []
        """Of kinds of devices on which no point trains, not told yet."""
        self._is_unsure = False
        """Whether a kind was tried, and nothing was found out."""

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Ask a process before its first trial: Tune asks it for an epoch after this."""
        process = self._processes.of(trial)
        is_one_enough = self._processes.mailbox is None and self._asked
        if self._is_over or is_one_enough or process is None or process.preflight is not None:
            return
        configs = [_config(point, self._driver.config.seed) for point in self._points]
        findings = process.handle.preflight.remote(configs, self._processes.mailbox)
        process.preflight = Asked(findings, self._in_words(self._points))
        process.preflight_points = len(self._points)
        self._open[findings] = process
        self._asked += 1

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Tell what was found since the last turn. It is over once a trial has an epoch: that shows more."""
        if self._is_over:
            return
        if self._open:
            done, _ = ray.wait(list(self._open), num_returns=len(self._open), timeout=0)
            for findings in done:
                process = self._open.pop(findings)
                process.preflight_points, process.silent_s = 0, 0.0
                self._take(findings)
        self._decide()
        self._is_over = not self._open and self._driver.record.has_epochs

    @property
    def _all_are_asked(self) -> bool:
        """Whether each kind of device was, as far as trials train on it: a process may start late."""
        return self._processes.mailbox is None or self._asked >= _at_a_time(self._driver)

    def _take(self, findings: Any) -> None:
        """Take the answer of a process, by its Ray reference."""
        try:
            found: list[Finding] | None = ray.get(findings)
        except ray.exceptions.RayError:  # a lost process is told with its trial
            found = None
        if found is None:
            self._is_unsure = True
        elif found and all(each.is_broken and not each.is_last for each in found):
            self._broken.append(found)
        elif found:
            self._tell(found)

    def _decide(self) -> None:
        """End the sweep where no point trains on any kind of device; tell it where one does on some."""
        if not self._broken or self._driver.end.outcome != "finished":
            return
        if self._found or self._driver.record.has_epochs:
            for found in self._broken:
                self._tell(found)
            self._broken.clear()
        elif not self._open and self._all_are_asked and not self._is_unsure:
            last = self._broken[-1][-1]
            if last.traceback:
                self._driver.say(last.traceback.rstrip())
            on = f" on {last.pc}" if self._driver.cluster.membership else ""
            self._driver.end.stop("error", f"preflight{on}: {last.reason}")

    def _tell(self, found: Sequence[Finding]) -> None:
        """Print what was found on one kind of device, and note it."""
        if self._driver.end.outcome != "finished":
            return
        self._found += found
        self._driver.record.note(KEY, [asdict(each) for each in self._found])
        for line in lines(self._driver, found):
            self._driver.say(line)
        if self._others:
            self._driver.say(f"            Not tried: {self._in_words(self._others, MOST_NAMED)}")
            self._others = []

    def _in_words(self, points: Sequence[Point], most: int = MOST_POINTS) -> str:
        several = len(self._driver.config.trainables) > 1
        named = [_point_in_words(point.trainable, point.params, several) for point in points[:most]]
        more = [f"and {count(len(points) - most, 'more such trial')}"] if len(points) > most else []
        return "; ".join([*named, *more])


def lines(driver: RunContext, found: Sequence[Finding]) -> Iterator[str]:
    """What was found on one kind of device, and what it says of the sweep."""
    several, on_pc = len(driver.config.trainables) > 1, driver.cluster.membership is not None
    for each in found:
        point = _point_in_words(each.trainable, each.params, several)
        yield f"Preflight   {point}: {_shown(each, on_pc)}"
    slowest = max((each.epoch_s for each in found if each.epoch_s is not None), default=None)
    epochs, at_a_time = driver.plan.expected_epochs, _at_a_time(driver)
    if slowest is not None:
        whole = _seconds(slowest * max(epochs / at_a_time, driver.config.max_epochs))
        yield (
            f"            At that speed the {count(epochs, 'epoch')} of the sweep take about {whole}, "
            f"{count(at_a_time, 'trial')} at a time"
        )
    if largest_bytes := max((each.checkpoint_bytes for each in found), default=0):
        yield f"            Disk: {disk.describe(driver.plan, largest_bytes)}"


def _at_a_time(driver: RunContext) -> int:
    """Trials that train at the same time."""
    slots = driver.slots(driver.gpus_per_trial)
    return min(slots, driver.config.num_trials or slots)


def _point_in_words(trainable: str, params: Mapping[str, ParamValue], several: bool) -> str:
    """By what makes it large, if there is any."""
    telling = {name: value for name, value in params.items() if not isinstance(value, float)}
    return ", ".join([*([trainable] if several else []), pairs(telling or params)])


def _shown(finding: Finding, on_pc: bool) -> str:
    """What the first steps of a point have shown."""
    where = f"{finding.device} of {size(finding.device_gb * GB)}" if finding.device else "the CPU"
    where += f" of {finding.pc}" if on_pc else ""
    if finding.is_out_of_memory:
        becomes = "is infeasible:" if finding.is_infeasible else "runs"
        return f"on {where}, such a trial {becomes} {finding.reason}"
    if finding.is_broken:
        return f"{f'on {where}, ' if on_pc else ''}such a trial will fail: {finding.reason}"
    epoch = "" if finding.epoch_s is None else f", about {_seconds(finding.epoch_s)} an epoch"
    return f"{size(finding.memory_gb * GB)} on {where}{epoch}"


def _seconds(seconds: float) -> str:
    """A duration, also a short one."""
    return duration(seconds) if seconds >= 10 else f"{seconds:.2g} s"


def _config(point: Point, seed: int) -> dict[str, Any]:
    """Of a point, as `SweepTrial` has that of a trial."""
    return {
        "trainable": point.trainable,
        "params": dict(point.params),
        "fixed": dict(point.fixed),
        "seed": seed,
    }
