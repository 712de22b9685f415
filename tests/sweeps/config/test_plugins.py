"""Plug-ins are found by name or dotted path, and a bad one is told what it lacks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sweeps.common.objective import Objective
from sweeps.config import plugins
from sweeps.kinds import registry
from tests.conftest import ROOT, skip_without
from tests.sweeps.common.plug_in_files import TRAINABLE, Write, fault


@pytest.mark.parametrize(
    ("kind", "some"),
    [
        ("search_space", {"digits_mlp", "fashion_cnn", "fashion_cnn_grid"}),
        ("searcher", {"grid", "random", "tpe"}),
        ("scheduler", {"asha", "none"}),
    ],
)
def test_the_choices_are_the_public_files_of_the_folder(kind: str, some: set[str]) -> None:
    root = ROOT
    files = {path.stem for path in (root / plugins.KINDS[kind].folder.replace(".", "/")).glob("[!_]*.py")}
    assert plugins.choices(kind) == sorted(files)
    assert some <= files


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in plugins.KINDS for name in plugins.choices(kind)]
)
def test_every_choice_is_found_and_keeps_the_contract(kind: str, name: str) -> None:
    if kind == "logger":
        skip_without(name)
    found = plugins.module_of(kind, name)
    assert found.__name__ == f"{plugins.KINDS[kind].folder}.{name}"
    assert all(hasattr(found, entry) for entry in plugins.KINDS[kind].defines)


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
    choices = registry.choices() if kind == "trainable" else plugins.choices(kind)
    assert all(choice in found for choice in choices)


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
    assert registry.find(path).params_class().lr == 0.1


def test_a_package_in_the_folder_where_the_command_was_typed_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "typed_here").mkdir()
    (tmp_path / "typed_here" / "model.py").write_text(TRAINABLE)
    monkeypatch.chdir(tmp_path)
    # As an installed console command sees it: the folder is not on the path.
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    assert registry.find("typed_here.model").objective == Objective("val_acc", "max")


def test_a_module_is_told_all_that_it_lacks(module: Write) -> None:
    path = module("METRIC = 'val_acc'\n")
    found = fault("trainable", path)
    assert "model.py does not define MODE, Params, build_model, build_data" in found
    assert "(a trainable defines METRIC, MODE, Params, build_model, build_data, or a function" in found


@pytest.mark.parametrize(
    ("kind", "lacking"),
    [("searcher", "Searcher"), ("scheduler", "Scheduler")],
)
def test_an_empty_module_lacks_the_whole_contract(kind: str, lacking: str, module: Write) -> None:
    assert fault(kind, module("")).endswith(f" does not define {lacking} (a {kind} defines {lacking})")


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
