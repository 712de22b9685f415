"""Labels out of range, then labels in it."""

from ray import tune

SPACE = {"shift": tune.grid_search([1000, 0])}
