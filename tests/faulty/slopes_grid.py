"""Ten toys that differ in how fast they improve."""

from ray import tune

SPACE = {"slope": tune.grid_search([0.1 * step for step in range(1, 11)])}
