"""The seed that a run's data gets."""

from __future__ import annotations

import pytest

from sweeps.common.seeding import seed_of_run


def test_it_is_the_seed_that_lightning_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PL_GLOBAL_SEED", "17")
    assert seed_of_run() == 17


def test_it_is_0_where_nothing_was_seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PL_GLOBAL_SEED", raising=False)
    assert seed_of_run() == 0
