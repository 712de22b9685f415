"""Tune's Trainable of a sweep: the interface by which Tune steps, saves and resets a trial's process."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ray import tune

from sweeps.common import imports
from sweeps.trial import leave_request, output
from sweeps.trial.job import Job
from sweeps.trial.messages import SAVED, Finding, Left, Message, Unfit, unfit

if TYPE_CHECKING:
    from sweeps.trial.runner import TrialRunner

STEPS = 2
"""Of a point before the first trial. The first one also loads kernels and asks for memory."""


class SweepTrial(tune.Trainable):
    """One trial; with `reuse_actors`, many in a row.

    Its config is `{"number": int, "trainable": str, "params": {name: value}, "fixed": {name: value},
    "seed": int, "failures": int, "micro_batch": int | None, "schedule_from": int}`: `params` are the searched
    hyperparameters, `failures` is how often it has raised, `micro_batch` the rows that it trains at once,
    `schedule_from` the epoch behind which schedules of its learning rate were made anew. Each step returns a
    `Message` as the result of Tune.
    """

    def setup(self, config: dict[str, Any], **shared: Any) -> None:
        """Keep the first trial for the first step; `job` is shared by all trials.

        PyTorch is loaded by that step: Tune gives the trial of a process that is still starting to one that
        has become free, so that with short trials a process that starts slowly would never train.
        """
        self._job: Job = shared["job"]
        self._output_file = ""
        self._next_config: dict[str, Any] | None = config
        self._waits = False
        """Whether the first step trains nothing: no point trains here, and the sweep may end for it."""
        self._result = Message().to_result()

    def __repr__(self) -> str:
        """The sweep whose trials it trains, as Ray's page of actors shows it: Ray asks once, at its start."""
        return f"sweep {self._job.sweep}"

    @cached_property
    def _runner(self) -> TrialRunner:
        with imports.fast():
            from sweeps.trial.runner import TrialRunner  # with PyTorch, which the driver does not load
        return TrialRunner(self._job)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Keep another trial for the next step: what ends here of the trial before it is the user's code, and
        Tune does not retry a trial that is lost in a reset."""
        self._next_config = new_config
        return True

    def step(self) -> dict[str, Any]:
        """Train and validate one epoch."""
        self._result = self._step().to_result()
        return self._result

    def _step(self) -> Message:
        if self._waits:
            self._waits = False
            return Message(end=Left(""))
        if self._next_config is not None:
            try:
                runner = self._runner
            except (ImportError, OSError) as error:  # PyTorch or Lightning is missing or broken on this PC
                return Message(end=unfit(error))
            runner.begin(self._next_config)
            self._next_config = None
        return self._runner.step()

    def preflight(self, config: dict[str, Any]) -> list[Finding]:
        """Train the first steps of a point before the trial, as `findings` does; [] where PyTorch can't be
        loaded, which the step tells."""
        try:
            runner = self._runner
        except (ImportError, OSError):
            return []
        found = findings(runner, config, self._next_config)
        # Behind a last one no other point was tried, and not that of the trial.
        self._waits = bool(found) and all(each.is_broken and not each.is_last for each in found)
        return found

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write a checkpoint into the storage. Tune's own folder stays empty."""
        if (saved := self._runner.save()) is not None:
            self._result[SAVED].append(saved)

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Do nothing: a trial finds its checkpoint in the storage when it begins."""

    def introduce(self, mailbox: Any = None, name: str = "") -> output.Introduction:
        """Listen to the stop signal, and to a mailbox, in which this process has that name, and keep what is
        printed."""
        leave_request.listen(mailbox, name)
        introduction = output.introduce()
        self._output_file = introduction.output_file
        return introduction

    def cleanup(self) -> None:
        """End the training."""
        if "_runner" in vars(self):  # no step was taken otherwise
            self._runner.end()
        output.remove(self._output_file)


def findings(
    runner: TrialRunner, config: Mapping[str, Any], own: Mapping[str, Any] | None = None
) -> list[Finding]:
    """Train the first steps of a point, and where it is broken also those of the trial's own one.

    Returns:
        What was found; [] where nothing was found out, since this PC can train no trial (the trial tells
        that), or since the process was asked to leave its run.
    """
    found = _finding(runner, config)
    if found is None or not found.is_broken or found.is_last or own is None:
        return [] if found is None else [found]
    of_own = _finding(runner, own)
    return [] if of_own is None else [found, of_own]


def _finding(runner: TrialRunner, config: Mapping[str, Any]) -> Finding | None:
    of_no_trial = {"number": -1, "failures": math.inf, "steps": STEPS}  # it is not retried
    runner.begin({**config, **of_no_trial})
    message = runner.step()
    checkpoint_bytes = runner.checkpoint_bytes
    runner.end()
    if isinstance(message.end, Unfit | Left):
        return None
    report, host = message.report, runner.hosts[0]
    costs = report.costs if report is not None else {}
    return Finding(
        trainable=config["trainable"],
        params=config["params"],
        pc=host.pc,
        device=host.gpu,
        device_gb=host.gpu_gb,
        memory_gb=costs.get("gpu_memory_gb", costs.get("memory_gb", 0.0)),
        checkpoint_bytes=checkpoint_bytes,
        is_last=runner.is_broken,
        end=message.end,
        epoch_s=costs.get("epoch_s"),
    )
