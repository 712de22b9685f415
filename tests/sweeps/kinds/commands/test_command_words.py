"""The words of a command: placeholders, and the values that take their places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sweeps.kinds import registry
from sweeps.kinds.commands.command_words import ARGS_FILE, CommandWords, with_names

VALUES: dict[str, Any] = {"lr": 1e-05, "amp": True, "aug": False, "note": "a b; $(rm x)", "opt.beta": 0.9}
VALUES |= {"note/a": 7}
OF_TRIAL = {"max_epochs": "9", "seed": "3", "trial": "1", "checkpoint_dir": "/tmp/c", "work_dir": "/tmp/w"}


def filled(command: str, folder: Path = Path()) -> list[str]:
    return CommandWords.of(command).filled(VALUES, OF_TRIAL, folder)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python t.py --lr {lr} --amp={amp}", ["python", "t.py", "--lr", "1e-05", "--amp=true"]),
        ("t --lr {lr} \\\n  --amp={amp}", ["t", "--lr", "1e-05", "--amp=true"]),
        ("bash -c '# {{a}} \\\nt' \"b\\\n\\\\\nc\"", ["bash", "-c", "# {a} \\\nt", "b\\\nc"]),
        ("t --note {note}", ["t", "--note", "a b; $(rm x)"]),
        ("t 'x y' b={opt.beta} e={max_epochs}/{seed}", ["t", "x y", "b=0.9", "e=9/3"]),
        ('t {{lr}} ${{HOME}} {{ \'{"a": {"b": 1}}\'', ["t", "{lr}", "${HOME}", "{", '{"a": {"b": 1}}']),
        ("t {args:lr,amp,aug}", ["t", "--lr=1e-05", "--amp=True", "--aug=False"]),
        ("t {args_no_hyphens:lr,opt.beta}", ["t", "lr=1e-05", "opt.beta=0.9"]),
        ("t {args_no_boolean_flags:lr,amp,aug}", ["t", "--lr=1e-05", "--amp"]),
        ("t {args_no_hyphens:note,note/a}", ["t", "note=a b; $(rm x)", "note/a=7"]),
        ("t {args_json:lr,amp}", ["t", '{"lr": 1e-05, "amp": true}']),
    ],
)
def test_values_take_the_places_of_placeholders_within_a_word(command: str, expected: list[str]) -> None:
    assert filled(command) == expected


def test_the_home_folder_is_found_as_by_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert filled("~/bin/t --out ~/o/{trial}/ a~/b") == ["/home/me/bin/t", "--out", "/home/me/o/1/", "a~/b"]


def test_a_file_has_all_hyperparameters(tmp_path: Path) -> None:
    of_project = tmp_path / "of the project"
    of_project.write_text("{}")
    (tmp_path / ARGS_FILE).symlink_to(of_project)
    _, word = filled("t {args_json_file:lr,note}", tmp_path)
    assert json.loads(Path(word).read_text()) == {name: VALUES[name] for name in ("lr", "note")}
    assert of_project.read_text() == "{}"


def test_its_hyperparameters_are_its_placeholders_but_those_of_the_trial() -> None:
    found = CommandWords.of("t {lr} {seed} {lr}{width} {args:wd,lr} {checkpoint_dir}").hyperparameters
    assert found == ("lr", "width", "wd")


def test_args_name_the_hyperparameters_of_the_sweep() -> None:
    assert with_names("t {args} {lr} {args_json:x} {{args}}", ["lr", "wd"]) == (
        "t {args:lr,wd} {lr} {args_json:x} {{args}}"
    )


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            "t x{args:lr}",
            "x{args:lr}: {args} must be a word of its own, as in bash -c '... \"$@\"' bash {args}",
        ),
        ("t {args}", "{args}: name its hyperparameters, as in {args:lr,batch_size}"),
        ("t {lr:wd}", "{lr:wd}: only args, "),
    ],
)
def test_a_placeholder_that_is_none(command: str, expected: str) -> None:
    (fault,) = CommandWords.of(command).faults()
    assert fault.startswith(expected)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python src/train.py --lr {lr}", "train"),
        ("torchrun --nproc-per-node 2 -m pkg.fine_tune", "fine_tune"),
        ("./run.sh {lr}", "run"),
        ("/opt/bin/solver {lr}", "solver"),
        ("bash -c 'solve: {lr}'", "bash"),
    ],
)
def test_the_name_of_its_folder(command: str, expected: str) -> None:
    assert registry.short_name(f"command:{command}") == expected
