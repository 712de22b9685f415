"""The files that the docs show, written as a reader would write them, and the hooks of the site."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import numpy as np

from tests import ROOT
from tests.docs.pages import BY_NAME
from tests.support import configured

PACKAGE = "my_project"
LIBRARIES = {
    "fine_tune": "ViTConfig",
    "digits_keras": "import keras",
    "digits_xgboost": "import xgboost",
    "digits_lightgbm": "integrations.lightgbm",
    "digits_bagging": "bagging_freq",
    "digits_sklearn": "partial_fit",
}
"""Trainables of libraries.md, each by a word of its block."""
FILES = ("digits.py", "loop.py", "svm.py", *(f"{name}.py" for name in LIBRARIES))
"""Trainables beside it."""
NAMES = {PACKAGE, "digits", "loop", "svm", "tune_digits", "net", "data", *LIBRARIES}
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
    (folder / "classify.py").write_text(block_with("commands", "argparse"))
    (folder / "svm.py").write_text(block_with("functions", "KFold"))
    blocks = BY_NAME["notebooks"].blocks("python")
    (folder / "first.py").write_text("\n\n".join(blocks[:3]))
    configured.write_hydra_groups(folder)
    write_libraries(folder)
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


def write_libraries(folder: Path) -> None:
    """The trainables of libraries.md."""
    for name, words in LIBRARIES.items():
        (folder / f"{name}.py").write_text(block_with("libraries", words))


STUDY = """
import optuna

study = optuna.create_study(storage="sqlite:///study.db", direction="maximize")
for lr in (0.003, 0.01, 0.03, 0.1):
    study.enqueue_trial({"lr": lr})
study.optimize(lambda trial: 1 - abs(trial.suggest_float("lr", 0.001, 1.0, log=True) - 0.03), n_trials=4)
"""
FROM_ELSEWHERE: Mapping[str, str] = {"study.db": STUDY, "runs.csv": ""}
"""Files of next-sweep.md, each with the program that makes it."""


def from_elsewhere(folder: Path, name: str) -> Path:
    """A file of trials of another program."""
    if program := FROM_ELSEWHERE[name]:
        subprocess.run([sys.executable, "-c", program], cwd=folder, check=True, capture_output=True)
    else:
        (folder / name).write_text("Name,lr,val_acc\n" + "".join(f"r{n},0.0{n},0.{n}\n" for n in range(1, 9)))
    return folder / name


def missing(name: str) -> str:
    """A library that one of these imports and that is not installed; "" where none is missing."""
    words = block_with("libraries", LIBRARIES[name]).split()
    libraries = [each for each in ("transformers", "keras", "xgboost", "lightgbm") if each in words]
    return next((each for each in libraries if importlib.util.find_spec(each) is None), "")


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
