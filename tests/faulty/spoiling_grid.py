"""Two that spoil their processes one after the other, and one that does not, which is given both."""

from ray import tune

SPACE = {"after_s": tune.grid_search([0.5, 1.0, 0.0])}
