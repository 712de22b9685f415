"""BOHB's scheduler, for the searcher of that name: Hyperband's brackets.

Falkner et al., 2018, https://arxiv.org/abs/1807.01774: "BOHB relies on HB to determine how many
configurations to evaluate with which budget, but replaces the random selection by a model-based search".
"""

from sweeps.schedulers import hyperband


class Scheduler(hyperband.Scheduler):
    """Hyperband by another name."""

    NAME = "bohb"
