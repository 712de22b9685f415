"""Two toys of the other model."""

from ray import tune

SPACE = {"speed": tune.grid_search([0.5, 1.0])}
