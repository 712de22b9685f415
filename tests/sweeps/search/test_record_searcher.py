"""The order in which trials are handed out: those that go on, then new ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.reruns import seeds
from sweeps.search.record_searcher import RerunSearcher
from tests.support.confirmed import ASKED, rerun, searched


def test_reruns_come_seed_by_seed_and_those_that_are_there_are_not_begun_again(tmp_path: Path) -> None:
    record = searched(tmp_path, 0.1, 0.9, 0.8)
    assert not record.is_to_be_confirmed
    record.note("confirm", ASKED)
    first, second = seeds(0, 2)
    assert record.reruns_to_come() == [(1, first), (2, first), (1, second), (2, second)]
    rerun(record, 2, first, 0.5)
    rerun(record, 1, first, 0.5, "unfinished")
    assert record.reruns_to_come() == [(1, second), (2, second)]
    nothing: Any = None  # the space: reruns are of points that there are
    handing = RerunSearcher(SweepConfig(), nothing, record)
    handing.slots = 2
    goes_on, new = handing.suggest("a"), handing.suggest("b")
    assert (goes_on["number"], new["seed"], new["params"]) == (4, second, {"slope": 0.11})
    assert handing.suggest("c") is None
