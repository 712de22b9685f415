"""How much each knob matters: fANOVA (Hutter et al., 2014), as Optuna has it, at one epoch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import optuna
from optuna.importance import FanovaImportanceEvaluator, get_param_importances
from optuna.trial import create_trial

from sweeps.record import Record
from sweeps.rows import TrialRow

NO_INFLUENCE = 0.02
"""Importance below which a knob counts as one without influence."""
ENOUGH = 30
"""Trials below which nothing is said: in fewer, noise passes for influence."""
MOST = 100
"""fANOVA takes 50 s with 1,000 trials, and says the same."""


@dataclass(frozen=True)
class Influence:
    """How much of the scores' spread each knob explains, by fANOVA."""

    epoch: int
    trials: int
    shares: Mapping[str, float]

    @property
    def without(self) -> list[str]:
        """Knobs without influence, as far as this epoch shows."""
        return [name for name, share in self.shares.items() if share < NO_INFLUENCE]


def influence(record: Record, trials: Sequence[TrialRow]) -> Influence | None:
    """Importance at the last epoch that nearly all trials reached: those that went further were chosen by
    their scores. None with too few trials, a constant metric, or fewer than two knobs that all have."""
    numbers = [trial.number for trial in trials if trial.status not in ("failed", "diverged")]
    needed = max(ENOUGH, math.ceil(0.9 * len(numbers)))
    epochs = {epoch for number in numbers for epoch in record.trials[number].epochs}
    for epoch in sorted(epochs, reverse=True):
        scores = record.scores_at(epoch)
        there = [number for number in numbers if number in scores]
        if len(there) >= needed:
            return _influence_at(record, epoch, there)
    return None


def _influence_at(record: Record, epoch: int, numbers: list[int]) -> Influence | None:
    scores = record.scores_at(epoch)
    if len(numbers) > MOST:
        gap = len(numbers) / MOST
        numbers = [numbers[int(place * gap)] for place in range(MOST)]
    if len({scores[number] for number in numbers}) < 2:
        return None
    study = optuna.create_study()
    for number in numbers:
        told = record.trials[number].told
        study.add_trial(
            create_trial(
                value=scores[number], params=dict(told.params), distributions=dict(told.distributions)
            )
        )
    found = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
    shares = {name: float(share) for name, share in found.items() if name != "trainable"}
    return Influence(epoch, len(numbers), shares) if len(shares) > 1 else None
