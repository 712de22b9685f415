"""A space in which some trials fail with the same error, and epochs are short or long."""

from ray import tune

SPACE = {
    "fault": tune.choice(["raises", "none"]),
    "slope": tune.uniform(0, 1),
    "epoch_s": tune.choice([0.0, 15.0]),
}
