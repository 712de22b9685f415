"""pytest plug-in: a test that takes over 4 s fails, unless it has the mark `slow` or `long`.

The aim is 2 s on the PC of a contributor; one in CI may be half as fast. What other work of a PC adds is
allowed for by the load. A test that was too slow is run once more (`--reruns 1 --only-rerun TooSlow`): the
first one of a process imports PyTorch for all others, and a virtual machine may stand still for seconds.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from time import perf_counter  # tests replace `time.monotonic`
from typing import Any

import pytest
from _pytest.fixtures import SubRequest

LIMIT_S = 4.0
SHARED_LIMIT_S = 10.0
"""Of a fixture that the tests of a file share, such as a Ray."""
CURRENT = pytest.StashKey[pytest.Item]()
"""The test that sets up a fixture."""


class TooSlow(Exception):
    """A test that takes longer than one without a mark may."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("slow tests")
    group.addoption("--limit-s", type=float, default=LIMIT_S, help="seconds that an unmarked test may take")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.config.stash[CURRENT] = item


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    began = perf_counter()
    result = yield
    _refuse(item, "the test", perf_counter() - began, item.config.getoption("--limit-s"))
    return result


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: SubRequest
) -> Generator[None, Any, Any]:
    began = perf_counter()
    result = yield
    limit_s: float = request.config.getoption("--limit-s")
    if fixturedef.scope != "function":
        limit_s = max(limit_s, SHARED_LIMIT_S)
    try:
        _refuse(
            request.config.stash[CURRENT],
            f"its fixture {fixturedef.argname}",
            perf_counter() - began,
            limit_s,
        )
    except TooSlow:
        fixturedef.finish(request)  # the next run sets it up again
        raise
    return result


def _refuse(item: pytest.Item, what: str, seconds: float, limit_s: float) -> None:
    """Raise where an unmarked test takes too long for a PC as busy as this one."""
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    if (
        seconds <= limit_s * max(1.0, load)
        or any(item.iter_markers("slow"))
        or any(item.iter_markers("long"))
    ):
        return
    raise TooSlow(
        f"{what} took {seconds:.1f} s, more than {limit_s:g} s: make it shorter, or mark the test `slow`, "
        "so that it runs in `make check`"
    )
