"""Trials of digits_mlp that are all of one size."""

from ray import tune

SPACE = {"lr": tune.loguniform(0.01, 0.1)}
