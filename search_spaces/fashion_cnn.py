"""Step size, which matters most, then regularization and size."""

from ray import tune

SPACE = {
    "lr": tune.loguniform(1e-3, 0.3),
    "momentum": tune.uniform(0.5, 0.95),
    "weight_decay": tune.loguniform(1e-6, 1e-2),
    "dropout": tune.quniform(0.0, 0.5, 0.1),
    "width": tune.choice([4, 6, 8]),
    "batch_size": tune.choice([32, 64, 128]),
}
