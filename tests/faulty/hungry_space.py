"""Trials that fit, that fit in parts, and that do not fit; see `tests.faulty.hungry`."""

from ray import tune

SPACE = {
    "case": tune.grid_search(["fits", "half", "quarter", "never", "model", "unsplit", "later", "norm"]),
}
