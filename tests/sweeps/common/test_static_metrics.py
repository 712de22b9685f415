"""What a trainable may know of a trial before it trains."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sweeps.common.errors import CannotTrain
from sweeps.common.static_metrics import static_metrics


def of(found: Any) -> Any:
    return SimpleNamespace(static_metrics=lambda params: found)


def test_they_are_numbers_by_name_and_none_where_there_is_no_function() -> None:
    assert static_metrics(of({"params_m": 2}), None) == {"params_m": 2.0}
    assert static_metrics(SimpleNamespace(), None) == {}


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (3.0, "must return a dict of numbers"),
        ({"params_m": "2"}, "params_m is '2', and must be a finite number"),
        ({"params_m": True}, "params_m is True"),
        ({"params_m": float("nan")}, "params_m is nan"),
    ],
)
def test_anything_else_is_refused(found: Any, why: str) -> None:
    with pytest.raises(CannotTrain, match=why):
        static_metrics(of(found), None)
