"""Step size, momentum and width of a small MLP."""

from ray import tune

SPACE = {
    "lr": tune.loguniform(1e-3, 1.0),
    "momentum": tune.uniform(0.0, 0.95),
    "hidden": tune.qrandint(8, 64, 8),
}
