"""The seven hyperparameters of LCBench's MLPs (Zimmer et al., 2021)."""

from ray import tune

SPACE = {
    "batch_size": tune.lograndint(16, 513),
    "learning_rate": tune.loguniform(1e-4, 1e-1),
    "momentum": tune.uniform(0.1, 0.99),
    "weight_decay": tune.uniform(1e-5, 1e-1),
    "num_layers": tune.randint(1, 6),
    "max_units": tune.lograndint(64, 1025),
    "max_dropout": tune.uniform(0.0, 1.0),
}
