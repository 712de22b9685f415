"""The list of bugs that the quick tests catch stays one of twenty rooms, and fits the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import ROOT
from tests.support.bugs import BUGS, Bug


def test_they_stand_in_twenty_rooms() -> None:
    assert len({str(Path(bug.file).parent) for bug in BUGS}) == len(BUGS) == 20


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.file)
def test_each_is_a_part_of_one_line_of_its_file(bug: Bug) -> None:
    assert (ROOT / bug.file).read_text().count(bug.part) == 1
    assert "\n" not in bug.part + bug.becomes
