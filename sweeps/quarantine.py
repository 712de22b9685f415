"""PCs that can't train are left out, each with its reason, and the sweep goes on without them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from ray.tune import Callback
from ray.tune.experiment import Trial

from sweeps.moving import Mover
from sweeps.roster import Roster
from sweeps.trial import SAVE_FAULT


class Quarantine(Callback):
    """Decides whether a fault is of a PC, or of what all PCs use.

    It is of a PC where another one was seen to work since the PC before it was left out: began a trial, hence
    found its checkpoints and data, or wrote a checkpoint.
    """

    def __init__(self, roster: Roster, mover: Mover, holds_one: Callable[[], bool]) -> None:
        self._roster = roster
        self._mover = mover
        self._holds_one = holds_one
        self._begun: set[int] = set()
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
        """Who writes a checkpoint works."""
        saved = trial.latest_checkpoint_result
        if saved is not None and SAVE_FAULT not in saved.metrics:
            self._worked(trial)

    def leave_out(self, trial: Trial, reason: str) -> str | None:
        """Place nothing more on the PC where a trial met a fault; what to say of it.

        None: the sweep is to end, for that PC is the head, or the only one that is left, or the fault is not
        of a PC.
        """
        node = self._mover.node_of(trial)
        if node in self._roster.away and self._roster.is_left_out(node):
            return ""  # another trial there has said so
        said = None if self._in_doubt else self._roster.leave_out(node, reason)
        if said is None or not self._holds_one():
            return None
        self._in_doubt = node
        return said

    @property
    def moved(self) -> Counter[int]:
        """Times that a trial was taken off a PC: no failure of its own."""
        return self._mover.moved

    @property
    def so_far(self) -> str:
        """The PCs that are left out, and why; "" where none is."""
        return "".join(f"; before that {pc}: {why}" for pc, why in self._roster.left_out.items())

    def _worked(self, trial: Trial) -> None:
        if (node := self._mover.node_of(trial)) and node not in self._roster.away:
            self._in_doubt = ""
