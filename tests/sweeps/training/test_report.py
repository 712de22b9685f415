"""What is known of a checkpoint without its model."""

from __future__ import annotations

import pytest

from sweeps.common.errors import CannotTrain
from sweeps.training.report import Progress


@pytest.mark.parametrize(
    ("before", "now", "is_refused"),
    [
        (("single", 1), ("single", 1), False),
        (("single", 1), ("ddp", 4), False),
        (("ddp", 2), ("single", 1), False),
        (("deepspeed_stage_2", 2), ("deepspeed_stage_2", 2), False),
        (("deepspeed_stage_2", 2), ("deepspeed_stage_2", 1), True),
        (("deepspeed_stage_2", 2), ("deepspeed_stage_3", 2), True),
        (("single", 1), ("deepspeed_stage_2", 1), True),
        (("fsdp", 2), ("ddp", 2), True),
    ],
)
def test_shards_are_read_by_as_many_workers_of_the_strategy(
    before: tuple[str, int], now: tuple[str, int], is_refused: bool
) -> None:
    known = Progress(strategy=before[0], workers=before[1])
    if is_refused:
        expected = rf"the checkpoint is of strategy {before[0]} with {before[1]} workers?, .* {now[0]} with"
        with pytest.raises(CannotTrain, match=expected):
            known.refuse_other_workers(*now)
    else:
        known.refuse_other_workers(*now)
