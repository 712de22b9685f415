"""The numbers of epochs on the pages are those that the program plans."""

from __future__ import annotations

import pytest

from sweeps.config.sweep_config import SweepConfig
from sweeps.schedulers.asha import Scheduler as Asha
from sweeps.schedulers.halving import Scheduler as Halving
from tests.docs.pages import BY_NAME


@pytest.mark.parametrize(
    ("page", "words", "scheduler", "trials"),
    [
        ("search", "about {} expected with pruning", Halving, 24),
        ("search", "`asha` would train about {} epochs for 24 trials", Asha, 24),
        ("recipes", "12 trials train {} epochs in all", Halving, 12),
    ],
)
def test_a_page_has_the_epochs_of_the_plan(
    page: str, words: str, scheduler: type[Asha | Halving], trials: int
) -> None:
    epochs = scheduler.expected_epochs(SweepConfig.from_settings(num_trials=trials))
    assert words.format(epochs) in BY_NAME[page].text
