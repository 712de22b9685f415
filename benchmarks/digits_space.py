"""Three hyperparameters of SGD for the benchmarks' CNN."""

from ray import tune

SPACE = {
    "lr": tune.loguniform(1e-3, 1.0),
    "momentum": tune.uniform(0.0, 0.95),
    "weight_decay": tune.loguniform(1e-6, 1e-2),
}
