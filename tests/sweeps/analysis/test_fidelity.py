"""At which epoch trials are compared, and what decides their scores there."""

from __future__ import annotations

import math

from sweeps.analysis import fidelity
from sweeps.analysis import figures as analysis_figures
from sweeps.analysis.sweep import Sweep


def test_scores_of_different_epochs_are_never_compared(sweeps: dict[str, Sweep]) -> None:
    found = fidelity.fidelity(sweeps["pruned"].record)
    assert found is not None
    assert (found.epoch, len(found.scores)) == (1, 30), "20 are needed, and 10 came to epoch 3"
    record = sweeps["pruned"].record
    assert found.scores == {t.number: t.epochs[1].score for t in record.trials}
    assert found.words == "scores at epoch 1, which 30 of 30 trials reached"
    said = analysis_figures.slices(sweeps["pruned"]).layout.title.subtitle.text
    assert found.words in said


def test_of_few_trials_the_epoch_is_the_last_that_two_thirds_reached(sweeps: dict[str, Sweep]) -> None:
    found = fidelity.fidelity(sweeps["running"].record)
    assert found is not None
    assert (found.epoch, sorted(found.scores)) == (3, [0, 1, 2, 3, 4, 5])


def test_importance_finds_the_hyperparameter_that_decides(sweeps: dict[str, Sweep]) -> None:
    found = fidelity.fidelity(sweeps["pruned"].record)
    assert found is not None
    shares = found.importances
    assert next(iter(shares)) == "lr"
    assert math.isclose(sum(shares.values()), 1)


def test_hyperparameters_of_several_trainables_are_told_apart(sweeps: dict[str, Sweep]) -> None:
    found = fidelity.fidelity(sweeps["several"].record)
    assert found is not None
    hyperparameters = [f"{model}.{name}" for model in ("cnn", "mlp") for name in ("lr", "momentum", "width")]
    assert sorted(found.tried.ranges) == sorted(["trainable", *hyperparameters])
