"""Measure how many trials share a GPU: `--trials-per-gpu auto`.

The first trials have a GPU each. Once as many as there are GPUs have trained an epoch, the memory that they
took decides how many trials share one, and each later epoch counts too. The share is the one with which the
trials so far would take the fewest GPUs: those that fit in it have a share, and each larger one a GPU of its
own. So a rare large trial, also as the first one, does not take the others their shares.

A trial that has another part of a GPU than it needs leaves its run at the next step, and is requeued. One
that runs out of memory in a share is requeued with a GPU of its own: its process can't have more than the
share, so that the others keep theirs. The measurements are in the record, so a resumed sweep does not repeat
them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ray.tune import PlacementGroupFactory
from ray.tune.experiment import Trial

from sweeps.common.formatting import GB, count, size
from sweeps.common.gpus import CONTEXT_GB
from sweeps.execution.run_context import DriverCallback, RunContext
from sweeps.execution.trial_actors import TrialActor, TrialActors
from sweeps.ray_cluster.placement import ChosenPCs
from sweeps.trial.messages import OutOfMemory, message_of

HEADROOM = 1.2
"""An allocator holds more memory than the tensors of the peak: it rounds up, and keeps what is freed."""
ALONE = "ran out of memory where several share a GPU: it began again with one of its own"
"""The notice of a trial that has a GPU of its own from then on. Records hold it, so it must not change."""


class Sharing(DriverCallback):
    """Gives each trial its share of a GPU, and moves trials that have more or less than they need.

    As many trials as the cluster has GPUs are measured at least; the GPU with the least free memory decides
    how many fit.
    """

    def __init__(self, context: RunContext, processes: TrialActors, chooser: ChosenPCs | None = None) -> None:
        self._context, self._processes, record = context, processes, context.record
        self._card_bytes = context.cluster.card_bytes
        gpus = sum(pc.gpus for pc in context.cluster.pcs_at_start)
        self._first = min(gpus, context.config.num_trials or gpus)
        self._resources = functools.cache(functools.partial(context.resources, chooser=chooser))
        self._peaks_gb: dict[int, float] = {}
        """The most memory that each trial took so far."""
        self._given: dict[int, float] = {}
        self._alone = {trial.number for trial in record.trials if ALONE in trial.notices}
        for trial in record.trials:
            for epoch in trial.epochs.values():
                self._measure(trial.number, epoch.costs)
        self.trials_per_gpu = self._best()
        """How many trials share a GPU now; 1 while too few were measured."""

    @property
    def gpus(self) -> float:
        """GPUs that a trial takes which begins now, unless it is known to need one of its own."""
        return 1 / self.trials_per_gpu

    def place(self, config: Mapping[str, Any]) -> PlacementGroupFactory:
        """The resources of a trial that begins now, as `tune.with_resources` asks for them."""
        number = config["number"]
        self._given[number] = 1.0 if self._needs_one(number) else self.gpus
        return self._resources(self._given[number])

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Measure, and tell it where another number of trials share a GPU from now on."""
        if (report := message_of(result).report) is not None:
            self._measure(trial.config["number"], report.costs)
        if (now := self._best()) == self.trials_per_gpu:
            return
        self.trials_per_gpu = now
        fitting_gb = max((peak for peak in self._peaks_gb.values() if self._fit(peak) >= now), default=0.0)
        others = max(self._peaks_gb.values()) > fitting_gb
        self._context.say(
            f"trials took up to {size(fitting_gb * GB)} of the {size(self._card_bytes)} free on a GPU: "
            f"{count(now, 'trial')} on each from now on{', larger ones alone' if others else ''}"
        )

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Ask trials with another part of a GPU than they need to leave their runs, and so their places."""
        if self._context.end.is_running:
            self._processes.ask_to_leave(filter(self._is_to_move, self._processes.training()))

    def is_to_requeue(self, trial: Trial) -> bool:
        """Whether a trial that Tune has ended must be requeued with a GPU of its own."""
        number = trial.config["number"]
        end = message_of(trial.last_result).end
        if not isinstance(end, OutOfMemory) or self._given[number] == 1:
            return False
        self._alone.add(number)
        self._context.say(f"Trial {number}: {ALONE}")
        self._context.record.notice(number, ALONE)
        return True

    def _is_to_move(self, process: TrialActor) -> bool:
        """Whether a trial has a GPU of its own and needs none, or the other way round. From one share to
        another it does not move: the number of trials on a GPU may change often."""
        number = process.trial.config["number"]
        return number in self._peaks_gb and (self._given[number] == 1) != (
            self.trials_per_gpu == 1 or self._needs_one(number)
        )

    def _needs_one(self, number: int) -> bool:
        """Whether a trial is too large for a share, as far as it is known."""
        is_large = number in self._peaks_gb and self._fit(self._peaks_gb[number]) < self.trials_per_gpu
        return is_large or number in self._alone

    def _fit(self, peak_gb: float) -> int:
        declared_gb = self._context.config.gpu_memory_gb_per_trial or 0.0
        return max(1, int(self._card_bytes / GB / max(HEADROOM * peak_gb + CONTEXT_GB, declared_gb)))

    def _best(self) -> int:
        """The number of trials on a GPU with which those that were measured take the fewest GPUs."""
        if len(self._peaks_gb) < self._first:
            return 1
        fit = [self._fit(peak) for peak in self._peaks_gb.values()]
        return min(sorted({1, *fit}), key=lambda n: sum(1 / n if each >= n else 1 for each in fit))

    def _measure(self, number: int, costs: Mapping[str, float]) -> None:
        if (took_gb := costs.get("gpu_memory_gb")) is not None:
            self._peaks_gb[number] = max(took_gb, self._peaks_gb.get(number, 0.0))
