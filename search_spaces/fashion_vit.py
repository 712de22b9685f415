"""Step size, regularization and size of the transformer; every choice of heads divides every width."""

from ray import tune

SPACE = {
    "lr": tune.loguniform(3e-4, 1e-2),
    "weight_decay": tune.loguniform(1e-3, 0.3),
    "dropout": tune.quniform(0.0, 0.3, 0.1),
    "width": tune.choice([24, 32, 48]),
    "depth": tune.choice([1, 2, 3]),
    "heads": tune.choice([2, 4]),
    "batch_size": tune.choice([32, 64, 128]),
}
