"""A coarse grid over a wide range: 12 points for `--searcher grid`."""

from ray import tune

SPACE = {
    "lr": tune.grid_search([0.003, 0.01, 0.03, 0.1]),
    "batch_size": tune.grid_search([32, 64, 128]),
}
