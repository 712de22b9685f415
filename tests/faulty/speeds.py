"""Toys of the other model that differ in how fast they improve."""

from ray import tune

SPACE = {"speed": tune.uniform(0.1, 1.0)}
