"""pytest plug-in: `--note-skipped` remembers which tests were skipped, `--only-skipped` runs those alone.

Between the two, what they lacked can be installed: `make test` on a machine with nothing else, then
`make test-extras`. The names stand in pytest's cache.
"""

from __future__ import annotations

import pytest

CACHE = "sweeps/skipped"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("skipped tests")
    group.addoption("--note-skipped", action="store_true", help="remember which tests are skipped")
    group.addoption(
        "--only-skipped", action="store_true", help="run those of the last run with --note-skipped"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--note-skipped") and not hasattr(
        config, "workerinput"
    ):  # xdist's workers report to it
        config.pluginmanager.register(Notes(config), "notes-of-skipped-tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that were not skipped, where asked for."""
    if not config.getoption("--only-skipped"):
        return
    noted = config.cache.get(CACHE, None) if config.cache else None
    if noted is None:
        raise pytest.UsageError("--only-skipped: no run with --note-skipped before this one (make test)")
    skipped = set(noted)
    kept = [item for item in items if {item.nodeid, item.nodeid.split("::")[0]} & skipped]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


class Notes:
    """Names of the tests, and of the whole files, that a run skips."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._skipped: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._skipped.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._skipped.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        if self._config.cache:
            self._config.cache.set(CACHE, sorted(self._skipped))
