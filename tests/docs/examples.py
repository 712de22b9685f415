"""The files that the docs show, written as a reader would write them, and the hooks of the site."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

from tests import ROOT
from tests.docs.pages import BY_NAME
from tests.support import configured

PACKAGE = "my_project"
FILES = ("digits.py", "loop.py", "svm.py")
"""Trainables beside it."""
NAMES = {PACKAGE, "digits", "loop", "svm", "tune_digits", "net", "data"}
"""Of modules: those of the tutorial, too."""
MODEL = """
METRIC, MODE = "val_acc", "max"


def build_model(params): ...
"""
"""The rest of the trainable whose preparation data.md shows."""


def block_with(page: str, words: str) -> str:
    """The first block of Python with these words on a page."""
    return next(block for block in BY_NAME[page].blocks("python") if words in block)


def write(folder: Path) -> None:
    """The models, spaces and raw files of the docs."""
    package = folder / PACKAGE
    package.mkdir(exist_ok=True)
    (folder / "digits.py").write_text(block_with("README", "METRIC"))
    (folder / "loop.py").write_text(block_with("functions", "def save"))
    (folder / "svm.py").write_text(block_with("functions", "KFold"))
    configured.write_hydra(folder)
    (package / "cli.py").write_text(configured.ANY_CLI)
    (folder / "config.yaml").write_text(configured.ANY_CONFIG)
    (package / "cnn.py").write_text(block_with("models-and-spaces", "METRIC"))
    (package / "space.py").write_text(block_with("models-and-spaces", "SPACE ="))
    (package / "layers.py").write_text(block_with("models-and-spaces", "def suggest"))
    (package / "_clips.py").write_text(block_with("data", "def raw_items"))
    (package / "clips.py").write_text(block_with("data", "PREPARE_PARAMS =") + MODEL)
    for split in ("train", "val", "test"):
        (folder / "clips" / split).mkdir(parents=True, exist_ok=True)
        frames = np.random.default_rng(0).integers(0, 256, (100, 96, 96, 3), dtype=np.uint8)
        np.savez(folder / "clips" / split / "a.npz", frames=frames, label=1)


def forget() -> None:
    """Forget the imports of these files, so that another test can import its own."""
    for name in [name for name in sys.modules if name.partition(".")[0] in NAMES]:
        del sys.modules[name]


def hooks() -> ModuleType:
    """`docs/hooks.py`, which MkDocs finds by its path."""
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "docs" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
