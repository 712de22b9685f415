"""PCs that can't train are left out, each with its reason, and the sweep goes on without them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ray.tune import Callback
from ray.tune.experiment import Trial

from sweeps.cluster import placement
from sweeps.cluster.membership import Membership
from sweeps.execution.driver import Driver
from sweeps.execution.migration import Mover
from sweeps.trial.job import SAVE_FAULT

MOST_UNSAVED = 2
"""Checkpoints in a row that a PC may fail to write while others write theirs."""


class Quarantine(Callback):
    """Decides whether a fault is of a PC, or of what all PCs use.

    It is of a PC where another one was seen to work since the PC before it was left out: began a trial, hence
    found its checkpoints and data, or wrote a checkpoint.
    """

    def __init__(self, driver: Driver, membership: Membership, mover: Mover) -> None:
        self._driver, self._membership, self.mover = driver, membership, mover
        self._begun: set[int] = set()
        self._unsaved: dict[str, list[tuple[Trial, str]]] = {}
        """Ray's id of a PC to its trials without a checkpoint, and why, since the last one that it wrote."""
        self._in_doubt = ""
        """Who was left out last, while no other has been seen to work since."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Tuner pickles all that it is given; a copy judges nobody."""
        return Callback, ()

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Its first report will show that it could begin."""
        self._begun.add(trial.config["number"])

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """A trial that reports its first epoch could begin."""
        if trial.config["number"] in self._begun and "epoch" in result:
            self._begun.discard(trial.config["number"])
            self._worked(trial)

    def on_trial_save(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Who writes a checkpoint works; who did not, again and again, while that one did, can't."""
        saved, node = trial.latest_checkpoint_result, self.mover.node_of(trial)
        if saved is None or not node:
            return
        if fault := saved.metrics.get(SAVE_FAULT):
            if fault["is_of_storage"]:
                self._unsaved.setdefault(fault["node"], []).append((trial, fault["reason"]))
            return
        self._worked(trial)
        for each in self.mover.nodes_of(trial):
            self._unsaved.pop(each, None)
        for other, faults in list(self._unsaved.items()):
            if len(faults) >= MOST_UNSAVED and not self._membership.is_left_out(other):
                number, reason = faults[-1][0].config["number"], faults[-1][1]
                self._goes_without(other, number, f"no checkpoint can be written there: {reason}")

    def leave_out(self, trial: Trial, reason: str, node: str) -> bool:
        """Place nothing more on the PC where a trial met a fault; "": that of its first worker.

        False: the sweep is to end, for that PC is the head, or the only one that is left, or the fault is not
        of a PC.
        """
        node = node or self.mover.node_of(trial)
        if self._membership.is_left_out(node):
            return True  # another trial there has said so
        if self._in_doubt or not self._goes_without(node, trial.config["number"], reason):
            return False
        self._in_doubt = node
        return True

    @property
    def moved(self) -> Counter[int]:
        """Times that a trial was taken off a PC: no failure of its own."""
        return self.mover.moved

    def _goes_without(self, node: str, number: int, reason: str) -> bool:
        """Leave a PC out, where the others have room for a trial, and say so."""
        staying = self._membership.staying(node)
        if not placement.most(self._driver.config, staying, self._driver.gpus_per_trial):
            return False
        if (said := self._membership.leave_out(node, reason)) is None:
            return False
        self._driver.say(said)
        self._driver.record.notice(number, said)
        return True

    def _worked(self, trial: Trial) -> None:
        if (node := self.mover.node_of(trial)) and node not in self._membership.away:
            self._in_doubt = ""
