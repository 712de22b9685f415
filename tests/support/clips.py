"""A project of a user's own whose data is prepared: its files, and raw files that say how they go wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests import ROOT

RAW = '''
"""Raw files to rows: a file says which rows it holds, and what goes wrong with it."""

import json
import os
import signal
import time
from pathlib import Path

import numpy as np

WAYS = "no clips here; --data-dir FOLDER, or ask your librarian"


def raw_items(params):
    folder = Path(os.environ.get("SWEEPS_DATA_DIR", "nowhere"))
    if not folder.is_dir():
        raise FileNotFoundError(WAYS)
    return {split.name: sorted(split.glob("*.json")) for split in sorted(folder.iterdir())}


def prepare(item, params):
    told = json.loads(item.read_text())
    with open(told["calls"], "a") as calls:
        calls.write(f"{item.stem} {os.getpid()}\\n")
    fault = told.get("fault", "")
    is_first_call = Path(told["calls"]).read_text().count(f"{item.stem} ") == 1
    time.sleep(told.get("seconds", 0))
    while not Path(told.get("until", "/")).exists():
        time.sleep(0.05)
    for first in range(told["first"], told["first"] + told["rows"], 7):
        if fault == "raises":
            raise ValueError("no key frame\\nfound")
        if fault == "exits":
            raise SystemExit(3)
        if fault == "killed" and first > told["first"]:  # behind its first block
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "killed once" and first > told["first"] + 7 and is_first_call:
            time.sleep(1)  # its first blocks have arrived
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "dies":
            os._exit(7)
        if fault == "rowless":
            yield {"row": np.arange(0), "pixels": np.zeros((0, params.pixels), np.uint8)}
            continue
        numbers = np.arange(first, min(first + 7, told["first"] + told["rows"]))
        rows = {"row": numbers, "pixels": np.repeat(numbers % 256, params.pixels).astype(np.uint8)}
        rows["pixels"] = rows["pixels"].reshape(len(numbers), params.pixels)
        if fault == "other":
            rows["row"] = numbers.astype(np.float32)
        yield rows
'''

MODEL = '''
"""Learns the mean of the pixels."""

from dataclasses import dataclass

from PACKAGE._raw import prepare, raw_items

METRIC, MODE = "val_loss", "min"
PREPARE_PARAMS = ("pixels",)


@dataclass(frozen=True, kw_only=True)
class Params:
    lr: float = 0.01
    """Step size."""
    pixels: int = 4
    """Values of a row."""
    batch_size: int = 8
    """Rows of a batch."""

    def __post_init__(self):
        if self.pixels < 1:
            raise ValueError(f"pixels {self.pixels}: at least 1")


def build_model(params):
    import lightning.pytorch as pl
    import torch

    class Mean(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Linear(params.pixels, 1)

        def _loss(self, batch):
            pixels = batch["pixels"].float() / 255
            return (self.net(pixels)[:, 0] - pixels.mean(1)).square().mean()

        def training_step(self, batch, index):
            return self._loss(batch)

        def validation_step(self, batch, index):
            self.log("val_loss", self._loss(batch))

        def test_step(self, batch, index):
            self.log("test_loss", self._loss(batch))

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=params.lr)

    return Mean()


def build_data(params, prepared):
    from sweeps.training import ParquetDataModule

    return ParquetDataModule(prepared, params.batch_size)
'''
SPACE = """
from ray import tune

SPACE = {"lr": tune.choice([0.01, 0.1]), "pixels": tune.choice([2, 3])}
"""
FILES = {"__init__.py": "", "_raw.py": RAW, "model.py": MODEL, "space.py": SPACE}


class Clips:
    """A project in a folder, its raw files, and its prepared data.

    Args:
        home: where the project's package lies, and where its commands are typed.
        package: its name.
    """

    def __init__(self, home: Path, package: str = "my_clips") -> None:
        self.home, self.package = home, package
        self.files = home / f"{package}_files"
        self.files.mkdir(parents=True)
        self.raw, self.prepared = self.files / "raw", self.files / "prepared"
        self._calls = self.files / "calls"
        for name, text in FILES.items():
            self.code(name, text)
        self._next = 0

    def hold(self, *names: str) -> Path:
        """Let these raw files wait, when they are prepared, for a file that is not there yet."""
        until = self.files / "goes_on"
        for path in (path for name in names for path in self.raw.rglob(f"{name}.json")):
            path.write_text(json.dumps({**json.loads(path.read_text()), "until": str(until)}))
        return until

    @property
    def model(self) -> str:
        """The trainable's dotted path."""
        return f"{self.package}.model"

    @property
    def environment(self) -> dict[str, str]:
        """Of the commands."""
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTHONWARNINGS": "",
            "SWEEPS_DATA_DIR": str(self.raw),
            "SWEEPS_PREPARED_DIR": str(self.prepared),
            "COLUMNS": "120",
        }

    def code(self, name: str, text: str) -> None:
        """Write a file of the project."""
        (self.home / self.package).mkdir(exist_ok=True)
        (self.home / self.package / name).write_text(text.replace("PACKAGE", self.package))

    def add(self, name: str, rows: int = 20, split: str = "train", **more: object) -> Path:
        """A raw file of rows that no other has."""
        (self.raw / split).mkdir(parents=True, exist_ok=True)
        path = self.raw / split / f"{name}.json"
        told = {"first": self._next, "rows": rows, "calls": str(self._calls), **more}
        path.write_text(json.dumps(told))
        self._next += rows
        return path

    def calls(self) -> list[str]:
        """Raw files that were given to `prepare`, in order."""
        lines = self._calls.read_text().splitlines() if self._calls.exists() else []
        return [line.split()[0] for line in lines]

    def forget_calls(self) -> None:
        self._calls.unlink(missing_ok=True)

    def begin(self, *arguments: str, module: str = "sweeps.prepare") -> subprocess.Popen[str]:
        """`python -m sweeps.prepare my_clips.model ...`, typed in the project's folder."""
        return self.python(
            "-m", module, *([self.model] if module in ("sweeps.fit", "sweeps.prepare") else []), *arguments
        )

    def python(self, *arguments: str) -> subprocess.Popen[str]:
        """A process in the project's folder."""
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.home,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, status: int = 0, module: str = "sweeps.prepare") -> str:
        """A command to its end; what it said."""
        begun = self.begin(*arguments, module=module)
        said, _ = begun.communicate(timeout=180)
        assert begun.returncode == status, said
        assert "Traceback" not in said, said
        return said
