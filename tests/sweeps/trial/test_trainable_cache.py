"""Trainables that a process has imported, each with the settings of PyTorch that its import left."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from sweeps.training import torch_state
from sweeps.trial.trainable_cache import TrainableCache
from tests.support.trainables import described
from tests.sweeps.common.plug_in_files import TRAINABLE

COUNTED = """
from pathlib import Path
with Path(__file__).with_suffix(".count").open("a") as file:
    file.write(".")
"""


@pytest.fixture(autouse=True)
def _settings_as_before() -> Iterator[None]:
    before = torch_state.Settings()
    yield
    before.restore()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainableCache:
    """Of a model in double precision, of one that takes what it finds, and of one that is broken."""
    package = tmp_path / f"cached_{tmp_path.name}"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "double.py").write_text(
        f"{TRAINABLE}{COUNTED}import torch\ntorch.set_default_dtype(torch.float64)\n"
    )
    (package / "plain.py").write_text(TRAINABLE + COUNTED)
    (package / "broken.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    return TrainableCache(
        {name: described(f"{package.name}.{name}") for name in ("double", "plain", "broken")}
    )


def test_each_has_the_settings_of_its_own_import_whichever_was_used_before(cache: TrainableCache) -> None:
    before = torch.get_default_dtype()
    for name, dtype in (
        ("double", torch.float64),
        ("plain", before),
        ("double", torch.float64),
        ("plain", before),
    ):
        cache.load(name)
        assert torch.get_default_dtype() == dtype
        torch.set_default_dtype(torch.float16)  # as a trial may leave it


def test_it_is_imported_once_and_only_when_it_is_asked_for(cache: TrainableCache, tmp_path: Path) -> None:
    assert not list(tmp_path.rglob("*.count"))
    first = cache.load("plain")
    assert cache.load("plain") is first
    assert [(file.stem, file.read_text()) for file in tmp_path.rglob("*.count")] == [("plain", ".")]


def test_one_that_is_broken_leaves_the_others(cache: TrainableCache) -> None:
    with pytest.raises(ZeroDivisionError):
        cache.load("broken")
    assert cache.load("plain").description.content.endswith(".plain")


def test_what_an_import_draws_is_the_same_in_each_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (
        "import random, numpy, torch\nDRAWN = random.random(), numpy.random.rand(), float(torch.rand(()))\n"
        "def describe_data(params): return DRAWN\n"
    )
    for name in ("drawn_here", "drawn_there"):
        (tmp_path / f"{name}.py").write_text(TRAINABLE + lines)
    monkeypatch.syspath_prepend(tmp_path)
    here = TrainableCache({"net": described("drawn_here")}).load("net").describe_data(None)
    torch.manual_seed(7)
    random.seed(7)
    there = TrainableCache({"net": described("drawn_there")}).load("net").describe_data(None)
    assert there == here
