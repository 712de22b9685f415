"""Toys that end by themselves, and toys that differ in how fast they improve."""

import optuna


def suggest(trial: optuna.Trial) -> None:
    if trial.suggest_categorical("fault", ["none", "stops"]) == "none":
        trial.suggest_float("slope", 0.1, 1.0)
