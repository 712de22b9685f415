"""How many trials share a GPU where that is measured: `--trials-per-gpu auto`.

The first trials have a GPU each. Once as many as there are GPUs have trained an epoch, the memory that they
took says how many share one. Those of the first that still train then make room: they write a checkpoint at
the end of their next epoch, and are requeued with a share. A trial that runs out of memory in a share is
requeued with a GPU of its own: its hyperparameters may make it larger than any before. What was measured is
in the record, so a resumed sweep does not measure again.
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
"""An allocator holds more of the card than the tensors of the peak: it rounds up, and keeps what is freed."""
CONTEXT_GB = 0.5
"""That CUDA takes of the card for each process, whatever that computes: 0.3 to 0.5 GB, by card and driver."""
ALONE = "ran out of memory where several share a GPU: it began again with one of its own"
"""The notice of a trial that is left alone from then on, also where the sweep is resumed."""
_HERE: weakref.WeakValueDictionary[int, Sharing] = weakref.WeakValueDictionary()


class Sharing(Callback, Stopper):
    """Gives each trial its share of a GPU; takes back what is too much once that is known.

    As many trials as the cluster has GPUs are measured; the smallest GPU says how many fit.
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
        self._told = self.trials_per_gpu
        _HERE[id(self)] = self

    def __reduce__(self) -> tuple[Any, ...]:
        """Tune pickles all that it is given. In this process it is itself again; elsewhere nobody asks it."""
        return _found, (id(self),)

    @property
    def trials_per_gpu(self) -> int:
        """How many of the largest that was measured a GPU holds; 1 while too few were."""
        if len(self._peaks_gb) < self._first:
            return 1
        declared_gb = self._driver.config.gpu_memory_gb_per_trial or 0.0
        each_gb = max(HEADROOM * max(self._peaks_gb.values()) + CONTEXT_GB, declared_gb)
        return max(1, int(self._card_bytes / GB / each_gb))

    @property
    def gpus(self) -> float:
        """That a trial takes from now on."""
        return 1 / self.trials_per_gpu

    def place(self, config: Mapping[str, Any]) -> PlacementGroupFactory:
        """The resources of a trial that begins now, as `tune.with_resources` asks for them."""
        number = config["number"]
        self._given[number] = 1.0 if number in self._alone else self.gpus
        return self._resources(self._given[number])

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether a trial is to make room at this epoch's end: it has more of a GPU than it needs."""
        number = result["config"]["number"]
        has_too_much = self._given.get(number, 0) > self.gpus and number not in self._alone
        if has_too_much and "epoch" in result and not result.get("done"):
            self._makes_room.add(number)
            return True
        return False

    def stop_all(self) -> bool:
        """It ends no sweep."""
        return False

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Measure; a trial that makes room writes a checkpoint first."""
        number = trial.config["number"]
        if number in self._makes_room:
            result[SHOULD_CHECKPOINT] = True
        self._measure(number, result.get("costs", {}))
        if (now := self.trials_per_gpu) == self._told:
            return
        self._told = now
        peak_gb = max(self._peaks_gb.values())
        took = f"trials took up to {size(peak_gb * GB)} of the {size(self._card_bytes)} of a GPU"
        self._driver.say(f"{took}: {count(now, 'trial')} on each from now on")

    def is_to_requeue(self, trial: Trial) -> bool:
        """Whether a trial that Tune has ended is to be restarted with another share of a GPU."""
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
        """Those that share, or may have to: one that is left alone says nothing of them."""
        if (took_gb := costs.get("gpu_memory_gb")) is not None and number not in self._alone:
            self._peaks_gb[number] = max(took_gb, self._peaks_gb.get(number, 0.0))


def _found(key: int) -> Callback:
    return _HERE.get(key) or Callback()
