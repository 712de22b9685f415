"""Data that was prepared before this program was one package is found, and not prepared again."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sweeps.training.data import build, dataset, shards
from sweeps.training.data.former_names import in_former_names
from sweeps.training.data.shards import Manifest

KEY = "8775dd42587fab3369b249e09429788c2b2add5b1f2b304de442d311a50ecaf6"
"""As the program of commit 79aa610 computed it, with BEFORE in place of NOW."""
NOW = '''"""Reads the files of my recorder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sweeps.training import CannotTrain
from sweeps.training import seed_of_run  # the order of rows

from user_clips import scale

if TYPE_CHECKING:
    from sweeps.training import Rows

PREPARE_PARAMS = ("pixels",)


def raw_items(params: Any) -> Mapping[str, Sequence[Path]]:
    raw = Path(__file__).parents[1] / "raw"
    return {split: sorted((raw / split).glob("*.txt")) for split in ("train", "val")}


def prepare(item: Path, params: Any) -> Iterator[Rows]:
    if not item.stat().st_size:
        raise CannotTrain(f"{item} is empty")
    rows = np.random.default_rng(seed_of_run()).permutation(10)
    yield {"row": rows, "pixels": np.full((10, params.pixels), scale.OF_A_PIXEL, np.uint8)}
'''
BEFORE = (
    NOW.replace("from sweeps.training import CannotTrain", "from training.config import CannotTrain")
    .replace("from sweeps.training import seed_of_run", "from training.process import seed_of_run")
    .replace("from sweeps.training import Rows", "from training.shards import Rows")
    .replace("PREPARE_PARAMS", "PREPARE_KNOBS")
)
IN_ONE_LINE = NOW.replace("import CannotTrain\nfrom sweeps.training import seed", "import CannotTrain, seed")
BY_THEIR_HOMES = NOW.replace("sweeps.training import Rows", "sweeps.training.data.shards import Rows")
MODEL = """
from dataclasses import dataclass

from user_clips.raw import PREPARE_PARAMS, prepare, raw_items

METRIC, MODE = "val_loss", "min"


@dataclass(frozen=True, kw_only=True)
class Params:
    lr: float = 0.01
    pixels: int = 4


def build_model(params): ...


def build_data(params, prepared): ...
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    raw_files = {"train/a": "one", "train/b": "two", "val/c": "three"}
    files = {"__init__.py": "", "scale.py": "OF_A_PIXEL = 3\n", "model.py": MODEL, "raw.py": NOW}
    texts = {f"raw/{name}.txt": text for name, text in raw_files.items()}
    for name, text in {**texts, **{f"user_clips/{name}": text for name, text in files.items()}}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("SWEEPS_PREPARED_DIR", str(tmp_path / "prepared"))
    monkeypatch.delenv("SWEEPS_DATA_DIR", raising=False)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "user_clips"]:
        del sys.modules[name]


def look() -> dataset.DataSet:
    return dataset.look("user_clips.model", importlib.import_module("user_clips.model"), {})


@pytest.mark.parametrize("source", [NOW, IN_ONE_LINE, BY_THEIR_HOMES])
def test_a_file_whose_imports_alone_have_moved_gives_the_key_of_before(project: Path, source: str) -> None:
    (project / "user_clips" / "raw.py").write_text(source)
    assert look().key == KEY


def test_any_other_change_of_the_code_gives_another_key(project: Path) -> None:
    (project / "user_clips" / "raw.py").write_text(NOW.replace("permutation(10)", "permutation(11)"))
    assert look().key != KEY


def test_data_prepared_before_is_taken_again(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = project / "prepared" / f"model-{KEY[:12]}"
    rows = {"row": np.arange(10), "pixels": np.zeros((10, 4), np.uint8)}
    columns = shards.columns_of(rows)
    splits = {
        split: [shards.write_shard(folder, f"{split}-0.parquet", rows, columns)] for split in ("train", "val")
    }
    about = {"trainable": "user_clips.model", "knobs": {"pixels": 4}}
    Manifest(columns=columns, splits=splits, fingerprint=KEY, about=about).write(folder)
    assert build.ensure(look(), has_to_say=True) == folder
    assert "prepared already: " in capsys.readouterr().out
    assert sorted(path.name for path in folder.iterdir()) == [
        "manifest.json",
        "train-0.parquet",
        "val-0.parquet",
    ]


@pytest.mark.parametrize(
    ("now", "before"),
    [
        (NOW, BEFORE),
        (IN_ONE_LINE, BEFORE),
        (BY_THEIR_HOMES, BEFORE),
        ("from sweeps.training import (\n    Columns,\n    ParquetDataModule as P,\n)\n",
         "from training.parquet import (\n    Columns,\n    ParquetDataModule as P,\n)\n"),
        ("from sweeps.training import data_dir\n", "from sweeps.training import data_dir\n"),
        ("from sweepstakes import Rows\n", "from sweepstakes import Rows\n"),
    ],
)  # fmt: skip
def test_imports_are_put_as_they_were(now: str, before: str) -> None:
    assert in_former_names(now.encode()).decode() == before
