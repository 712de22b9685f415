"""A small architecture search: how many convolutions, and how wide each is, given the one before."""

import optuna


def suggest(trial: optuna.Trial) -> None:
    trial.suggest_float("lr", 1e-3, 0.3, log=True)
    trial.suggest_float("dropout", 0.0, 0.5, step=0.1)
    width = trial.suggest_int("width", 4, 8, step=2)
    convolutions = trial.suggest_int("convolutions", 1, 3)
    for number in range(2, convolutions + 1):  # each as wide as the one before, up to twice that
        width = trial.suggest_int(f"width_{number}", width, 2 * width, step=2)
