"""Measure how many trials share a GPU: `--trials-per-gpu auto`.

The first trials have a GPU each. Once as many as there are GPUs have trained an epoch, the memory that they
took decides how many trials share one. The first trials that still train then make room: they write a
checkpoint at the end of their next epoch, and are requeued with a share. A trial that runs out of memory in a
share is requeued with a GPU of its own, since its hyperparameters may make it larger than any before. The
measurements are in the record, so a resumed sweep does not repeat them.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Mapping
from typing import Any

from ray.tune import Callback, PlacementGroupFactory, Stopper
from ray.tune.experiment import Trial
from ray.tune.result import SHOULD_CHECKPOINT

from sweeps.common.formatting import GB, count, size
from sweeps.execution.driver import Driver

HEADROOM = 1.2
"""An allocator holds more memory than the tensors of the peak: it rounds up, and keeps what is freed."""
CONTEXT_GB = 0.5
"""Taken by CUDA for each process: 0.3 to 0.5 GB, by GPU and driver."""
ALONE = "ran out of memory where several share a GPU: it began again with one of its own"
"""The notice of a trial that has a GPU of its own from then on. Records hold it, so it must not change."""
_HERE: weakref.WeakValueDictionary[int, Sharing] = weakref.WeakValueDictionary()


class Sharing(Callback, Stopper):
    """Gives each trial its share of a GPU, and moves trials that have more than they need.

    As many trials as the cluster has GPUs are measured; the smallest GPU decides how many fit.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver, record = driver, driver.record
        self._card_bytes = driver.cluster.card_bytes
        gpus = sum(pc.gpus for pc in driver.cluster.pcs)
        self._first = min(gpus, driver.config.num_trials or gpus)
        self._resources = functools.cache(driver.resources)
        self._peaks_gb: dict[int, float] = {}
        self._given: dict[int, float] = {}
        self._makes_room: set[int] = set()
        self._alone = {trial.number for trial in record.trials if ALONE in trial.notices}
        for trial in record.trials:
            for epoch in trial.epochs.values():
                self._measure(trial.number, epoch.costs)
        self._announced = self.trials_per_gpu
        _HERE[id(self)] = self

    def __reduce__(self) -> tuple[Any, ...]:
        """Tune pickles its callbacks. Unpickled in this process it is the same object."""
        return _unpickled, (id(self),)

    @property
    def trials_per_gpu(self) -> int:
        """How many of the largest trial that was measured fit on a GPU; 1 while too few were measured."""
        if len(self._peaks_gb) < self._first:
            return 1
        declared_gb = self._driver.config.gpu_memory_gb_per_trial or 0.0
        each_gb = max(HEADROOM * max(self._peaks_gb.values()) + CONTEXT_GB, declared_gb)
        return max(1, int(self._card_bytes / GB / each_gb))

    @property
    def gpus(self) -> float:
        """GPUs that a trial takes which begins now."""
        return 1 / self.trials_per_gpu

    def place(self, config: Mapping[str, Any]) -> PlacementGroupFactory:
        """The resources of a trial that begins now, as `tune.with_resources` asks for them."""
        number = config["number"]
        self._given[number] = 1.0 if number in self._alone else self.gpus
        return self._resources(self._given[number])

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether a trial must make room after this epoch, since it has more of a GPU than it needs."""
        number = result["config"]["number"]
        has_too_much = self._given.get(number, 0) > self.gpus and number not in self._alone
        if has_too_much and "epoch" in result and not result.get("done"):
            self._makes_room.add(number)
            return True
        return False

    def stop_all(self) -> bool:
        return False

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Measure; ask for a checkpoint of a trial that makes room."""
        number = trial.config["number"]
        if number in self._makes_room:
            result[SHOULD_CHECKPOINT] = True
        self._measure(number, result.get("costs", {}))
        if (now := self.trials_per_gpu) == self._announced:
            return
        self._announced = now
        peak_gb = max(self._peaks_gb.values())
        took = f"trials took up to {size(peak_gb * GB)} of the {size(self._card_bytes)} of a GPU"
        self._driver.say(f"{took}: {count(now, 'trial')} on each from now on")

    def is_to_requeue(self, trial: Trial) -> bool:
        """Whether a trial that Tune has ended must be requeued with another share of a GPU."""
        number, result = trial.config["number"], trial.last_result
        if number in self._makes_room:
            self._makes_room.discard(number)
            return True
        if not result.get("is_out_of_memory") or self._given[number] == 1:
            return False
        self._alone.add(number)
        self._driver.say(f"Trial {number}: {ALONE}")
        self._driver.record.notice(number, ALONE)
        return True

    def _measure(self, number: int, costs: Mapping[str, float]) -> None:
        """Count the memory of a trial, unless it has a GPU of its own for good."""
        if (took_gb := costs.get("gpu_memory_gb")) is not None and number not in self._alone:
            self._peaks_gb[number] = max(took_gb, self._peaks_gb.get(number, 0.0))


def _unpickled(key: int) -> Callback:
    return _HERE.get(key) or Callback()
