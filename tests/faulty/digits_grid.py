"""A coarse look over the wide range, for a grid that is refined."""

from ray import tune

SPACE = {
    "lr": tune.grid_search([0.001, 0.01, 0.1, 1.0]),
    "hidden": tune.grid_search([8, 32]),
}
