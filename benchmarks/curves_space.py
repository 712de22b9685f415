"""The grid of `benchmarks.curves`, 288 points; the last hyperparameter changes fastest."""

from ray import tune

SPACE = {
    "dropout": tune.choice([0.0, 0.3]),
    "width": tune.choice([2, 4, 8]),
    "batch_size": tune.choice([32, 128]),
    "momentum": tune.choice([0.0, 0.5, 0.8, 0.95]),
    "lr": tune.choice([0.001, 0.003, 0.01, 0.03, 0.1, 0.3]),
}
