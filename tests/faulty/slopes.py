"""Toys that differ in how fast they improve."""

from ray import tune

SPACE = {"slope": tune.uniform(0.1, 1.0)}
