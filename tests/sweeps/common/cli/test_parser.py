"""Values of flags and files in the types of their fields, and every mistake at once."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from sweeps.common.cli.parser import Parser, add, add_pairs
from sweeps.common.errors import UserError
from sweeps.common.settings import typed


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (int, "3", 3),
        (float, "1e-3", 0.001),
        (float, 3, 3.0),
        (int | None, None, None),
        (Literal["32", "16-mixed"], 32, "32"),
        (int | Literal["auto"], "auto", "auto"),
        (str, "3", "3"),
        (str, "runs #2", "runs #2"),
        (str | None, "'/opt/my tools/notify'", "'/opt/my tools/notify'"),
        (str | list[str] | None, "echo 'a  b' # c\necho d", "echo 'a  b' # c\necho d"),
        (int | str, " 20GB", " 20GB"),
        (bool, False, False),
        (str | list[str], ["a", "b"], ["a", "b"]),
    ],
)
def test_a_value_that_fits_has_the_type_of_its_field(kind: Any, value: Any, expected: Any) -> None:
    found = typed("--flag", kind, value)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (int, "3.5", "--flag 3.5: must be a whole number"),
        (int, True, "--flag True: must be a whole number"),
        (float, "nan", "--flag nan: must be a number"),
        (float, "inf", "--flag inf: must be a number"),
        (bool, "yes", "--flag yes: must be true or false"),
        (str, 3, "--flag 3: must be text"),
        (str | list[str], ["a", 3], "--flag 3: must be text"),
        (Literal["sgd", "adam"], "adan", "--flag adan: must be one of sgd, adam. Did you mean 'adam'?"),
        (
            int | Literal["auto"],
            "aut",
            "--flag aut: must be a whole number or one of auto. Did you mean 'auto'?",
        ),
    ],
)
def test_one_that_does_not_is_told_what_it_must_be(kind: Any, value: Any, words: str) -> None:
    with pytest.raises(UserError) as raised:
        typed("--flag", kind, value)
    assert str(raised.value) == words


def parser() -> Parser:
    made = Parser("sweeps try", "%(prog)s", "Tries.")
    add(made, "num_trials", int, "Trials.", 9)
    add(made, "trainable", str | list[str], "What is trained.", None)
    add(made, "force", bool, "Whatever has changed.", False)
    add_pairs(
        made, "params", "Fixed hyperparameters.", file_of=lambda word: word if word == "best.yaml" else ""
    )
    return made


def test_what_is_typed_is_there_and_all_else_by_default() -> None:
    values = parser().values_of(["--trainable=a", "b", "--params", "lr=1e-3", "best.yaml", "--no-force"])
    assert vars(values) == {
        "num_trials": 9,
        "trainable": ["a", "b"],
        "force": False,
        "params": {"lr": 0.001},
        "files": ["best.yaml"],
    }


def test_all_values_that_do_not_fit_and_all_strays_are_told_at_once() -> None:
    with pytest.raises(UserError) as raised:
        parser().values_of(["stray", "--num-trials", "many", "--params", "lr"], "; give flags")
    assert str(raised.value).splitlines() == [
        "stray: not a flag; give flags",
        "--num-trials many: must be a whole number",
        "--params lr: give name=value, as in --params rows=0 width=16",
    ]


def test_a_name_that_is_given_twice_is_refused() -> None:
    with pytest.raises(UserError, match="--params lr is given twice"):
        parser().values_of(["--params", "lr=0.1", "width=3", "--params", "lr=0.2"])


def test_all_flags_that_are_none_are_told_at_once_with_the_nearest() -> None:
    with pytest.raises(UserError) as raised:
        parser().values_of(["--num-trails", "3", "--forse"])
    lines = str(raised.value).splitlines()
    assert lines[:2] == [
        "--num-trails: no such flag. Did you mean '--num-trials'?",
        "--forse: no such flag. Did you mean '--force'?",
    ]


@pytest.mark.parametrize("columns", ["1", "2", "12"])
def test_the_help_needs_no_wide_terminal(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    with pytest.raises(SystemExit):
        parser().values_of(["--help"])
    assert "--num-trials" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["-1e-3", "-0.001", "-.001", "-10e-4"])
def test_a_negative_number_is_a_value_in_whatever_form(text: str) -> None:
    made = parser()
    add(made, "target", float, "Score that is enough.", 0.0)
    assert made.values_of(["--target", text, "--num-trials", "3"]).target == -0.001
