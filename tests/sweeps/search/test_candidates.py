"""At which fidelity a model is fitted."""

from __future__ import annotations

import math
from pathlib import Path

from sweeps.record.record import Record
from sweeps.search import candidates
from tests.conftest import propose


def test_the_model_is_fitted_at_the_highest_rung_that_enough_trials_reached(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {})
    for number in range(6):
        propose(record, {})
        for epoch in (3, 9, 27)[: 3 - number // 2]:  # 6 reach epoch 3, 4 reach 9, 2 reach 27
            record.report(number, epoch, math.nan if (number, epoch) == (0, 27) else 0.5, {}, 1.0)
    fidelities = [27, 9, 3]
    found = {enough: candidates.model_fidelity(record, fidelities, enough) for enough in (1, 2, 4, 5, 6, 7)}
    assert found == {1: 27, 2: 9, 4: 9, 5: 3, 6: 3, 7: None}
