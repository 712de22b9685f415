"""Plug-ins are found by name or dotted path, and a bad one is told what it lacks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps import registry
from sweeps.config import UserError

TRAINABLE = """
from dataclasses import dataclass
METRIC, MODE = "val_acc", "max"
@dataclass(frozen=True, kw_only=True)
class Params:
    lr: float = 0.1
def build_model(params): ...
def build_data(params): ...
"""

Write = Callable[[str], str]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a user's module into a package of their own; its dotted path."""
    package = f"mine_{tmp_path.name}"
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)

    def write(text: str, name: str = "model") -> str:
        (tmp_path / package / f"{name}.py").write_text(text)
        return f"{package}.{name}"

    return write


def fault(kind: str, name: str) -> str:
    with pytest.raises(UserError) as raised:
        registry.find(kind, name)
    return str(raised.value)


@pytest.mark.parametrize(
    ("kind", "some"),
    [
        ("trainable", {"digits_mlp", "fashion_cnn"}),
        ("search_space", {"digits_mlp", "fashion_cnn", "fashion_cnn_grid"}),
        ("searcher", {"grid", "random", "tpe"}),
        ("scheduler", {"asha", "none"}),
    ],
)
def test_the_choices_are_the_public_files_of_the_folder(kind: str, some: set[str]) -> None:
    root = Path(registry.__file__).resolve().parents[1]
    files = {path.stem for path in (root / registry.FOLDERS[kind].replace(".", "/")).glob("[!_]*.py")}
    assert registry.choices(kind) == sorted(files)
    assert some <= files


@pytest.mark.parametrize("kind", registry.FOLDERS)
def test_every_choice_is_found_and_keeps_the_contract(kind: str) -> None:
    for name in registry.choices(kind):
        found = registry.find(kind, name)
        assert found.__name__ == f"{registry.FOLDERS[kind]}.{name}"
        assert all(hasattr(found, entry) for entry in registry.CONTRACTS[kind])


@pytest.mark.parametrize(
    ("kind", "name", "near"),
    [
        ("trainable", "fashion_cn", "fashion_cnn"),
        ("trainable", "digits-mlp", "digits_mlp"),
        ("search_space", "fashion_cnn_gird", "fashion_cnn_grid"),
        ("searcher", "randm", "random"),
        ("scheduler", "ahsa", "asha"),
    ],
)
def test_a_misspelt_name_gets_the_nearest_spelling_and_the_choices(kind: str, name: str, near: str) -> None:
    found = fault(kind, name)
    assert found.startswith(f"--{kind.replace('_', '-')} {name}: no such {kind.replace('_', ' ')}.")
    assert f"Did you mean '{near}'?" in found
    assert all(choice in found for choice in registry.choices(kind))


@pytest.mark.parametrize("name", ["", ".", "a..b", "no_such_package.model", "../fashion_cnn", "fashion cnn"])
def test_a_name_that_is_no_module_is_no_plug_in(name: str) -> None:
    assert f"--trainable {name}: no such trainable." in fault("trainable", name)


@pytest.mark.parametrize(
    ("kind", "name"), [("trainable", "_classifier"), ("searcher", "_searcher"), ("searcher", "__init__")]
)
def test_an_underscore_module_is_no_plug_in(kind: str, name: str) -> None:
    assert f"--{kind} {name}: no such {kind}." in fault(kind, name)


def test_a_dotted_path_reaches_a_users_own_module(module: Write) -> None:
    path = module(TRAINABLE)
    assert registry.find("trainable", path).Params().lr == 0.1


def test_a_package_in_the_folder_where_the_command_was_typed_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "typed_here").mkdir()
    (tmp_path / "typed_here" / "model.py").write_text(TRAINABLE)
    monkeypatch.chdir(tmp_path)
    # As an installed console command sees it: the folder is not on the path.
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    assert registry.find("trainable", "typed_here.model").METRIC == "val_acc"


def test_a_module_is_told_all_that_it_lacks(module: Write) -> None:
    path = module("METRIC = 'val_acc'\n")
    found = fault("trainable", path)
    assert "model.py does not define MODE, Params, build_model, build_data" in found
    assert "(a trainable defines METRIC, MODE, Params, build_model, build_data)" in found


@pytest.mark.parametrize(
    ("kind", "lacking"),
    [("searcher", "build, SCHEDULERS, TAKES"), ("scheduler", "build, describe")],
)
def test_an_empty_module_lacks_the_whole_contract(kind: str, lacking: str, module: Write) -> None:
    assert f"does not define {lacking} " in fault(kind, module(""))


BOTH = "SPACE = {}\ndef suggest(trial): ...\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "space.py defines neither; a search space defines either SPACE = "),
        (BOTH, "space.py defines SPACE and suggest; a search space defines either SPACE = "),
        ("suggest = 3", "suggest must be a function of a trial, suggest(trial)"),
    ],
)
def test_a_space_is_written_in_one_of_two_ways(text: str, expected: str, module: Write) -> None:
    assert expected in fault("search_space", module(text, "space"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\n\nx = 1 / 0\n", "ZeroDivisionError: division by zero"),
        ("\n\nimport no_such_package\n", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("\n\ndef broken(:\n", "SyntaxError"),
    ],
)
def test_a_module_that_cannot_be_imported_shows_error_file_and_line(
    text: str, expected: str, module: Write
) -> None:
    path = module(text)
    found = fault("trainable", path)
    assert found.startswith(f"--trainable {path}: can't be imported: {expected}")
    assert "model.py" in found
    assert "line 3" in found


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("lr: float = 0.1", "lr: float\n    width: int", "knobs of Params without a default: lr, width"),
        ("@dataclass(frozen=True, kw_only=True)", "", "Params must be a dataclass, one field per knob"),
        ('"max"', '"maximum"', "MODE 'maximum' must be min or max"),
    ],
)
def test_a_trainable_that_breaks_its_contract_is_told_how(
    old: str, new: str, expected: str, module: Write
) -> None:
    path = module(TRAINABLE.replace(old, new))
    assert fault("trainable", path) == f"--trainable {path}: {expected}"
