"""Trials that fit, that fit in parts, and that do not fit."""

from ray import tune

SPACE = {"row_mb": tune.grid_search([1.0, 40.0, 90.0, 410.0])}
