"""What functions and classes of a program use of it, and that what can't be sent is named."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray import cloudpickle

from sweeps.common.errors import UserError
from sweeps.kinds import used_objects
from sweeps.kinds.used_objects import UsedObjects

PROGRAM = """
import math
from tests.faulty import by_function

SCALE, UNUSED, TABLE = 3, 4, list(range(1000))

def inner(x):
    return SCALE * x

def outer(x):
    return [inner(each) for each in x]

class Base:
    rate = 0.5

    @staticmethod
    def start():
        return TABLE

class Net(Base):
    def step(self):
        return outer([1])

def train(params, trial):
    by_function.train(params, trial)
    return Net().step()
"""


def program(source: str = PROGRAM) -> dict[str, Any]:
    """The variables of a program."""
    variables: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "<program>", "exec"), variables)
    return variables


def test_all_that_is_read_is_found_also_inside_of_other_functions() -> None:
    used = UsedObjects.by(train=program()["train"])
    assert {*used.texts} - {"object"} == {"train", "Net", "Base", "inner", "outer", "SCALE", "TABLE"}
    assert used.texts["SCALE"] == "3"
    assert used.texts["TABLE"].startswith("of list, ")
    assert "'rate': 0.5" in used.texts["Base"]
    assert {*used.variables} == {"SCALE", "TABLE"}
    assert [name for name, _ in used.modules] == ["tests.faulty.by_function"]


@pytest.mark.parametrize(
    "change", [("SCALE, UNUSED", "UNUSED, SCALE"), ("return SCALE *", "return SCALE **")]
)
def test_a_change_of_what_is_used_is_seen(change: tuple[str, str]) -> None:
    before = UsedObjects.by(train=program()["train"])
    after = UsedObjects.by(train=program(PROGRAM.replace(*change))["train"])
    assert before.texts != after.texts
    assert UsedObjects.by(train=program(PROGRAM.replace("UNUSED", "OTHER"))["train"]).texts == before.texts


def test_what_a_function_holds_counts_as_well() -> None:
    def around(lock: object) -> Any:
        def train(params: Any, trial: Any) -> None:
            print(lock)

        train.__module__ = "__main__"
        return train

    found = functools.partial(around(2), "params")
    assert UsedObjects.by(train=found).variables == {"lock": 2, "train": "params"}


def test_a_variable_that_cannot_be_sent_is_named() -> None:
    variables = program("def train(params, trial):\n    with lock:\n        print(rate)\n")
    variables |= {"lock": threading.Lock(), "rate": 3}
    used = UsedObjects.by(train=variables["train"])
    with pytest.raises(
        UserError, match=r"^train uses lock, which can't be sent to the processes of the trials"
    ):
        used_objects.pickled({"train": variables["train"]}, used, cloudpickle.dumps)


def test_a_variable_that_is_too_large_is_named() -> None:
    variables = program("def train(params, trial):\n    print(rows, rate)\n")
    variables |= {"rows": np.zeros(13_000_000), "rate": 3}
    used = UsedObjects.by(train=variables["train"])
    with pytest.raises(UserError, match=r"^train uses rows \(104 MB\), rate .* at most 100 MB"):
        used_objects.pickled({"train": variables["train"]}, used, cloudpickle.dumps)


DATA = """
import collections
import functools

import numpy as np
import pandas as pd
import torch

class Config:
    def __init__(self, rate):
        self.rate, self.parent, self.build = rate, self, build_a

class Net:
    rows = np.arange(9)

def build_a():
    return 1

def build_b():
    return 2

MODELS = {"a": build_a, "more": [build_b, functools.partial(build_b)]}
ROWS, WEIGHTS = np.ones((3, 4)), torch.ones(3, dtype=torch.bfloat16)
TABLE = pd.DataFrame({"word": ["x", "y"], "number": [1, 2]})
WORDS, CODES = {"some", "of", "these", "words"}, {word: {word} for word in "abc"}
CONFIG, LONG = Config(0.5), list(range(2000))

def train(params, trial):
    return Net, MODELS, ROWS, WEIGHTS, TABLE, WORDS, CODES, CONFIG, LONG, "x" in {"x", "y", "z"}
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("np.arange(9)", "np.arange(9)[::-1]", "Net.rows"),
        ("return 2", "return 3", "MODELS['more'][0]"),
        ("np.ones", "np.zeros", "ROWS"),
        ("torch.ones", "torch.zeros", "WEIGHTS"),
        ("[1, 2]", "[1, 3]", "TABLE"),
        ('"some", ', "", "WORDS"),
        ('"abc"', '"abd"', "CODES"),
        ("Config(0.5)", "Config(0.6)", "CONFIG"),
        ("range(2000)", "range(1, 2001)", "LONG"),
    ],
)
def test_a_change_of_data_is_seen_and_named(old: str, new: str, told: str) -> None:
    before, after = (
        UsedObjects.by(train=program(each)["train"]).texts for each in (DATA, DATA.replace(old, new))
    )
    assert [name for name in before if before[name] != after[name]] == [told]


@pytest.mark.slow  # two more processes
def test_unchanged_data_is_the_same_in_another_process(tmp_path: Path) -> None:
    shows = "from sweeps.kinds.used_objects import UsedObjects\nprint(UsedObjects.by(train=train).texts)\n"
    (tmp_path / "program.py").write_text(DATA + shows)
    found = [
        subprocess.run(
            [sys.executable, "program.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert found[0] == found[1]
    assert "build_a" in found[0]


def test_a_module_of_another_folder_is_found_also_where_the_function_imports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "ml-packages" / "tool"
    (home / "their_package").mkdir(parents=True)
    (home / "their_package" / "part.py").write_text("raise ValueError('it is not imported')")
    (home / "their_scores.py").touch()
    (home / "score.py").touch()  # it has nothing to do with their_scores.score
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.setitem(sys.modules, "forbidden", None)
    imports = "import forbidden, json, numpy; from their_scores import score; from their_package import part"
    imports += "; from . import score"
    used = UsedObjects.by(train=program(f"def train(params, trial):\n    {imports}\n")["train"])
    assert [name for name, _ in used.modules] == ["their_scores", "their_package.part"]


def test_a_module_beside_the_program_is_found_where_the_function_imports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of `python -m their_package.program`."""
    (tmp_path / "their_package").mkdir()
    for name in ("their_package/part.py", "their_package/other.py", "part.py"):
        (tmp_path / name).touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    imports = "from .part import thing; from . import other; from ...far import thing"
    train = program(f"def train(params, trial):\n    {imports}\n")["train"]
    train.__globals__["__package__"] = "their_package"
    found = [name for name, _ in UsedObjects.by(train=train).modules]
    assert found == ["their_package.part", "their_package.other"]


def test_what_cannot_be_sent_inside_of_a_class_or_an_instance_is_named() -> None:
    source = "class Net:\n    lock = lock\n    def train(self, params, trial):\n        return Net\n"
    variables: dict[str, Any] = {"__name__": "__main__", "lock": threading.Lock()}
    exec(source, variables)
    with pytest.raises(UserError, match=r"^Net uses Net.lock, which"):
        used_objects.pickled(
            {"train": variables["Net"]}, UsedObjects.by(Net=variables["Net"]), cloudpickle.dumps
        )
    variables = program(source.replace("lock = lock", "size = 3"))
    own = variables["Net"]()
    own.lock = threading.Lock()
    with pytest.raises(UserError, match=r"^train uses an instance of Net, which"):
        used_objects.pickled({"train": own.train}, UsedObjects.by(train=own.train), cloudpickle.dumps)
