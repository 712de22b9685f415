"""Tests here import projects of the docs in this process; each test begins without those of the last."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sweeps.common import project
from tests.docs import examples


@pytest.fixture(autouse=True)
def no_project_of_another_test() -> Iterator[None]:
    """Set up first, hence taken down last: the current folder is this repository's again by then."""
    yield
    examples.forget()
    project.use()
