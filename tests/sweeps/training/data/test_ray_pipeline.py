"""Raw files into parts, by processes of Ray: whole, or named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sweeps.common.errors import CannotPrepare
from sweeps.training.data import preparation, ray_pipeline, shards
from tests.support.clips import Clips
from tests.sweeps.training.data.looked_up import look


@pytest.mark.slow
def test_processes_that_die_again_and_again_end_it(clips: Clips, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_pipeline, "DIED", 1)
    for number in range(3):
        clips.add(f"bad{number}", fault="dies")
    expected = "the processes of more than 1 raw files died.* prepare crashes .* Ray's error: "
    with pytest.raises(CannotPrepare, match=expected):
        preparation.ensure_prepared(look(clips))


@pytest.mark.parametrize(
    ("numbers", "reason"),
    [
        ([0, 1, 2], ""),
        ([0, 2], "blocks are missing: block 2 came after 1 others"),
        ([1], "blocks are missing: block 1 came after 0 others"),
        ([0, 1, 0, 1, 2], "blocks are missing: block 0 came after 2 others"),
    ],
    ids=["whole", "too early an end", "no beginning", "from its beginning once more"],
)
def test_a_file_whose_blocks_are_not_all_there_leaves_no_part(
    numbers: list[int], reason: str, clips: Clips, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last number is of the message that ends it. A worker that is tried again may give others."""
    data_set = look(clips)
    item, other = data_set.items[:2]

    def messages(*_: object) -> Iterator[dict[str, Any]]:
        (payload, rows), *_rest = ray_pipeline.encoded([{"row": np.arange(3)}])
        block = {"rows": rows, "is_last": False, "error": "", "mistake": "", "payload": payload}
        for number in numbers[:-1]:
            yield {**block, "part": item.part, "number": number}
        yield {**block, "part": item.part, "number": numbers[-1], "is_last": True}
        yield {**block, "part": other.part, "number": 0}
        yield {**block, "part": other.part, "number": 1, "is_last": True}

    monkeypatch.setattr(ray_pipeline, "_messages", messages)
    found = list(ray_pipeline.run(data_set, [item, other], allowed=2))
    assert found == ([(item, reason)] if reason else [])
    assert data_set.part(item).exists() == (not reason)
    assert sum(group.num_rows for group in shards.open_groups(data_set.part(other))) == 3
    assert len(list(data_set.parts_folder.iterdir())) == 2 - bool(reason)
