"""Before the first trial: does the largest trial train, and what does it take?

It runs in the processes that then train the first trials, one for each kind of GPU: Python, PyTorch and the
data are loaded for them as well. Its findings are in the record: a resumed sweep does not repeat it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import ray
from ray.tune.experiment import Trial

from sweeps.common.formatting import GB, count, duration, short, size
from sweeps.execution.driver import Driver, DriverCallback
from sweeps.execution.processes import Processes
from sweeps.plan import disk
from sweeps.space import largest
from sweeps.space.flat import refusal
from sweeps.space.point import Point
from sweeps.trial.finding import Finding

KEY = "preflight"
"""Of the record: what was found."""


class Preflight(DriverCallback):
    """Has the first processes of a run train the first steps of the largest points, and tells what they find.

    Args:
        driver: of the sweep.
        processes: of its trials.
    """

    def __init__(self, driver: Driver, processes: Processes) -> None:
        self._driver, self._processes = driver, processes
        self._is_over = not driver.config.preflight or KEY in driver.record.about or self._has_epochs()
        spaces = {model.name: model.space for model in driver.plan.models}

        def is_refused(point: Point) -> bool:
            return bool(refusal(spaces[point.trainable].params_class, {**point.fixed, **point.params}))

        points = [] if self._is_over else largest.points(driver.plan.space, driver.config.seed, is_refused)
        self._configs = [_config(point, driver.config.seed) for point in points]
        self._asked: dict[Any, Any] = {}
        """A Ray reference to findings, and the process that has them."""
        self._told: set[Any] = set()
        self._found: list[Finding] = []

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Ask a process before its first trial: Tune asks it for an epoch after this."""
        process = self._processes.of(trial)
        is_one_enough = self._processes.mailbox is None and self._asked
        if self._is_over or is_one_enough or process is None or process.handle in self._asked.values():
            return
        self._asked[process.handle.preflight.remote(self._configs, self._processes.mailbox)] = process.handle

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Tell what was found since the last turn. It is over once a trial has an epoch: that shows more."""
        if self._is_over:
            return
        open_ = [findings for findings in self._asked if findings not in self._told]
        for findings in ray.wait(open_, num_returns=len(open_), timeout=0)[0] if open_ else []:
            self._told.add(findings)
            with contextlib.suppress(ray.exceptions.RayError):  # a lost process is told with its trial
                self._tell(ray.get(findings))
        self._is_over = not open_ and self._has_epochs()

    def _has_epochs(self) -> bool:
        return any(trial.epochs for trial in self._driver.record.trials)

    def _tell(self, found: Sequence[Finding]) -> None:
        """Print what was found, note it, and end the sweep where no point trains."""
        if not found or self._driver.end.outcome != "finished":
            return
        if all(each.is_broken for each in found):
            last = found[-1].failure
            if not last["is_user_error"]:
                self._driver.say(str(last["traceback"]).rstrip())
            self._driver.end.stop("error", f"preflight: {last['reason']}")
            return
        self._found += found
        self._driver.record.note(KEY, [asdict(each) for each in self._found])
        for line in lines(self._driver, found):
            self._driver.say(line)


def lines(driver: Driver, found: Sequence[Finding]) -> Iterator[str]:
    """What was found on one kind of device, and what it says of the sweep."""
    for each in found:
        yield f"Preflight   {_in_words(each, several=len(driver.config.trainables) > 1)}"
    slowest = max((each.epoch_s for each in found if each.epoch_s is not None), default=None)
    epochs, slots = driver.plan.expected_epochs, driver.slots(driver.gpus_per_trial)
    if slowest is not None:
        whole = _seconds(epochs * slowest / slots)
        yield (
            f"            At that speed the {count(epochs, 'epoch')} of the sweep take about {whole}, "
            f"{count(slots, 'trial')} at a time"
        )
    if largest_bytes := max((each.checkpoint_bytes for each in found), default=0):
        yield f"            Disk: {disk.describe(driver.plan, largest_bytes)}"


def _in_words(finding: Finding, several: bool) -> str:
    named = [finding.trainable] if several else []
    telling = {name: value for name, value in finding.params.items() if not isinstance(value, float)}
    shown = telling or finding.params
    point = ", ".join([*named, *(f"{name}={short(value)}" for name, value in shown.items())])
    where = f"{finding.device} of {size(finding.device_gb * GB)}" if finding.device else "the CPU"
    if finding.is_out_of_memory:
        return (
            f"{point}: the batch does not fit in the memory of {where}. Such a trial goes on with smaller "
            "micro-batches"
        )
    if finding.is_broken:
        return f"{point}: such a trial will fail: {finding.failure['reason']}"
    epoch = "" if finding.epoch_s is None else f", about {_seconds(finding.epoch_s)} an epoch"
    return f"{point}: {size(finding.memory_gb * GB)} on {where}{epoch}"


def _seconds(seconds: float) -> str:
    """A duration, also a short one."""
    return duration(seconds) if seconds >= 10 else f"{seconds:.2g} s"


def _config(point: Point, seed: int) -> dict[str, Any]:
    """Of a point, as `SweepTrial` takes it; its number is that of no trial."""
    return {
        "number": -1,
        "trainable": point.trainable,
        "params": dict(point.params),
        "fixed": dict(point.fixed),
        "seed": seed,
    }
