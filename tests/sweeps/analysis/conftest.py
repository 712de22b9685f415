"""A sweep of each kind, read once."""

from __future__ import annotations

import pytest

from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.sweep import Sweep
from tests.support import kinds
from tests.support.kinds import KINDS


@pytest.fixture(scope="session")
def sweeps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Sweep]:
    """One of each kind, as a notebook has it."""
    folder = tmp_path_factory.mktemp("kinds")
    return {name: analysis_sweep.load(kinds.write(name, folder / name)) for name in KINDS}
