"""Step size, weight decay, width of the network and strength of the augmentation."""

from ray import tune

SPACE = {
    "lr": tune.loguniform(3e-4, 1e-2),
    "weight_decay": tune.loguniform(1e-4, 0.1),
    "width": tune.choice([8, 16]),
    "augmentation": tune.quniform(0.0, 1.5, 0.5),
}
