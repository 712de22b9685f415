"""Two pairs."""

from __future__ import annotations

from ray import tune

SPACE = {"lr": tune.grid_search([0.01, 0.02])}
