"""Weights of the best epoch, in a folder that is whole or not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from sweeps.common.params_file import FILE, WEIGHTS_FILE
from sweeps.training import weights


def test_what_is_kept_reads_back_beside_what_trains_it_again(tmp_path: Path) -> None:
    best = {"layer.weight": torch.arange(6.0).reshape(2, 3), "layer.bias": torch.zeros(2)}
    weights.keep(tmp_path / "best", best, "trainable: net  # größer\n")
    found = torch.load(tmp_path / "best" / WEIGHTS_FILE, weights_only=True)
    assert found.keys() == best.keys()
    assert all(torch.equal(found[name], value) for name, value in best.items())
    assert (tmp_path / "best" / FILE).read_text(encoding="utf-8") == "trainable: net  # größer\n"


def test_what_can_not_be_written_leaves_no_folder(tmp_path: Path) -> None:
    class Unwritable:
        def __reduce__(self) -> str:
            raise RuntimeError("can't be written")

    best: dict[str, Any] = {"layer": Unwritable()}
    with pytest.raises(RuntimeError, match="can't be written"):
        weights.keep(tmp_path / "best", best, "")
    assert list(tmp_path.iterdir()) == []
