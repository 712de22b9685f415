"""The scheduler of BOHB, for the searcher of that name: Hyperband's brackets.

Falkner et al., 2018, https://arxiv.org/abs/1807.01774: "BOHB relies on HB to determine how many
configurations to evaluate with which budget, but replaces the random selection by a model-based search".
"""

from sweeps.config.sweep_config import SweepConfig
from sweeps.schedulers.hyperband import build, cohorts, ends_at, in_words, most_waiting, waits_at

__all__ = ["build", "cohorts", "describe", "ends_at", "most_waiting", "waits_at"]


def describe(config: SweepConfig) -> str:
    return f"bohb: {in_words(config)}"
