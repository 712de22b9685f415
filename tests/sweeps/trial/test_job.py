"""What all trials of a sweep share: the data that is prepared for each, and how the winner is scored."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sweeps.common.errors import is_out_of_memory
from sweeps.space.point import Point
from sweeps.storage.open import Folder
from sweeps.training.config import FitConfig
from sweeps.trial import job as trial_job
from sweeps.trial.job import Job
from tests.faulty import hungry
from tests.support.trainables import as_trainable, described


class Color(enum.Enum):
    GREY = 1
    RGB = 3


@dataclass(frozen=True, kw_only=True)
class Params:
    """Of each kind that a sweep holds in another form than a trainable."""

    pixels: int = 32
    sides: tuple[int, ...] = (4, 8)
    layers: list[int] = field(default_factory=list)
    color: Color = Color.GREY
    lr: float = 0.1


class Lies:
    """Prepared data that lies somewhere."""

    def __init__(self, at: Path) -> None:
        self.at = at

    def here(self, say: Any) -> Path:
        say(f"copied to {self.at}")
        return self.at


def test_a_trial_gets_the_data_of_its_trainable_and_of_its_own_hyperparameters(tmp_path: Path) -> None:
    as_held = ("[4, 8]", "[]", "GREY")
    prepared: Any = {
        ("clips", (32, *as_held)): Lies(tmp_path / "small"),
        ("clips", (64, *as_held)): Lies(tmp_path / "large"),
        ("other", (32, *as_held)): Lies(tmp_path / "other"),
    }
    job = Job(
        trainables={"clips": described("trainables.clips"), "net": described("trainables.net")},
        storage=Folder(tmp_path),
        fit=FitConfig(),
        max_failures=0,
        checkpoint_epochs=None,
        prepared=prepared,
    )
    names = ("pixels", "sides", "layers", "color")
    asks: Any = SimpleNamespace(Params=Params, PREPARE_PARAMS=names, raw_items=None, prepare=None)
    clips, said = as_trainable(asks, "clips"), []
    found = [job.data_of(clips, Params(pixels=n), said.append) for n in (64, 32)]
    assert found == [tmp_path / "large", tmp_path / "small"]
    assert said == [f"copied to {tmp_path}/large", f"copied to {tmp_path}/small"]
    assert job.data_of(as_trainable(SimpleNamespace(), "net"), SimpleNamespace(pixels=32)) is None


def test_a_trial_has_its_own_seed_and_once_it_ran_out_of_memory_its_own_micro_batch(tmp_path: Path) -> None:
    fit = FitConfig(micro_batch=16)
    job = Job(trainables={}, storage=Folder(tmp_path), fit=fit, max_failures=0, checkpoint_epochs=None)
    whole = job.fit_of({"seed": 7, "micro_batch": None})
    assert (whole.seed, whole.micro_batch) == (7, 16)
    assert job.fit_of({"seed": 7}).micro_batch == 16
    assert job.fit_of({"seed": 7, "micro_batch": 4}).micro_batch == 4


def scored(micro_batch: int | None, folder: Path) -> dict[str, float]:
    """The scores of a model that takes 80 MB of 400 for each row of a batch of 16."""
    job = Job(
        trainables={"net": described("tests.faulty.hungry", "net")},
        storage=Folder(folder),
        fit=FitConfig(metric="val_loss", mode="min", precision="32"),
        max_failures=0,
        checkpoint_epochs=None,
    )
    params = {"case": "quarter"}
    weights = folder / "weights.pt"
    torch.save(hungry.build_model(hungry.Params(**params)).state_dict(), weights)
    point = Point("net", params)
    return trial_job.test_winner(job, point, 0, micro_batch, {weights.name: weights.read_bytes()})


def test_a_winner_that_fits_in_parts_alone_is_scored_in_parts(tmp_path: Path) -> None:
    assert set(scored(4, tmp_path)) == {"test_loss"}
    with pytest.raises(RuntimeError, match="memory") as raised:
        scored(None, tmp_path)
    assert is_out_of_memory(raised.value)
