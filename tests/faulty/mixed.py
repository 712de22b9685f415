"""Toys of every end: good, poor, broken and diverged."""

from ray import tune

SPACE = {
    "slope": tune.uniform(0.1, 1.0),
    "fault": tune.choice(["none", "stops", "raises", "diverges"]),
}
