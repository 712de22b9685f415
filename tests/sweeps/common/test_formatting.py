"""Numbers, paths and commands, as messages have them."""

from __future__ import annotations

import math
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.__main__ import COMMANDS
from sweeps.common.formatting import (
    bytes_of,
    cell,
    command,
    count,
    duration,
    fitted,
    pip_install,
    plain_name,
    rough,
    short,
    short_value,
    shortest,
    shown_path,
    size,
)
from tests import ROOT


@pytest.mark.parametrize(
    ("bytes_", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1234, "1.23 kB"),
        (999_499, "999 kB"),
        (999_600, "1 MB"),
        (12_345_678, "12.3 MB"),
        (250e9, "250 GB"),
        (3.4e12, "3.4 TB"),
        (0.4, "0 B"),
    ],
)
def test_a_size_is_in_powers_of_ten_and_three_digits(bytes_: float, words: str) -> None:
    assert size(bytes_) == words


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        ("500MB", 5e8),
        ("20 GB", 2e10),
        ("1.5tb", 1.5e12),
        ("3kB", 3000),
        *((text, None) for text in ("20", "20G", "20GiB", "-1GB", "GB", "1e3GB", "1.GB", "")),
    ],
)
def test_the_bytes_of_a_size_or_of_no_size(text: str, bytes_: float | None) -> None:
    assert bytes_of(text) == bytes_


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (190, "3 min 10 s"),
        (3599.7, "1 h 0 min"),
        (7500, "2 h 5 min"),
        (273_600, "3 d 4 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_one_of_a_thing_has_no_s_and_many_have_commas() -> None:
    assert [count(number, "trial") for number in (0, 1, 2, 12_345, 1_048_576)] == [
        "0 trials",
        "1 trial",
        "2 trials",
        "12,345 trials",
        "1,048,576 trials",
    ]
    assert (count(0.5, "GPU"), count(1.0, "GPU")) == ("0.5 GPUs", "1 GPU")


def test_a_hyperparameter_that_is_null_is_named_so_and_one_that_is_missing_is_empty() -> None:
    assert [short_value(value) for value in (None, [None, 0.123456])] == ["null", "null, 0.1235"]
    assert (cell({"clip": None}, "clip"), cell({}, "clip")) == ("null", "")


def test_a_value_is_short() -> None:
    assert [short(value) for value in (0.123456, 1e-7, 12, "adam", True, None, [0.5, "a", None])] == [
        "0.1235",
        "1e-07",
        "12",
        "adam",
        "True",
        "",
        "0.5, a, ",
    ]


def test_a_path_below_the_current_folder_is_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert shown_path(tmp_path / "here" / "results" / "s") == "results/s"
    assert shown_path(tmp_path / "there") == str(tmp_path / "there")


def test_a_command_can_be_typed_with_words_that_have_spaces() -> None:
    words = shlex.split(command("run", "--resume", "results/best of May"))
    assert words[-3:] == ["run", "--resume", "results/best of May"]


def test_of_a_number_of_32_bits_no_digit_is_left_that_does_not_count() -> None:
    noisy = {
        0.8774999976158142: 0.8775,
        1e-05: 1e-05,
        9.999999747378752e-06: 1e-05,
        -0.30000001192092896: -0.3,
    }
    exact = {value: value for value in (0.1, 1 / 3, 0.5, 0.0, 134217744.0, 1e300, math.inf, -math.inf)}
    for value, expected in {**noisy, **exact}.items():
        assert shortest(value) == expected
    assert math.isnan(shortest(math.nan))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(40.4, "40 s"), (130, "2 min"), (3000, "50 min"), (9000, "2.5 h"), (40_000, "11 h"), (400_000, "4.6 d")],
)
def test_a_rough_duration_has_two_digits(seconds: float, text: str) -> None:
    assert rough(seconds) == text


def test_a_package_is_installed_by_uv_where_the_environment_has_no_pip() -> None:
    assert pip_install("raysweeps[all]").endswith(" -m pip install 'raysweeps[all]'")
    code = f"import sys; sys.path.append({str(ROOT)!r})\nfrom sweeps.common.formatting import pip_install\n"
    code += "print(pip_install('raysweeps[all]'))"
    without = [sys.executable, "-I", "-S", "-c", code]  # without the packages of the environment
    said = subprocess.run(without, capture_output=True, text=True, check=True).stdout
    assert said.startswith("uv pip install --python ")
    assert said.endswith(" 'raysweeps[all]'\n")


LONG = "results/digits-20261129-064701"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "ray        1 PC, 2 CPUs; its dashboard: http://127.0.0.1 (enter the token in ~/.ray/auth_token)",
            [
                "ray        1 PC, 2 CPUs; its dashboard: http://127.0.0.1",
                "           (enter the token in ~/.ray/auth_token)",
            ],
        ),
        (f"Repeat     sweeps run --config {LONG}/sweep.yaml --name 'a b'", None),
        (f"For more trials, type: sweeps run --resume {LONG}", None),
        (
            "It sweeps runs of all kinds, as you may have read in many words",
            ["It sweeps runs of all kinds, as you may have read in many", "words"],
        ),
    ],
)
def test_lines_are_broken_between_words_but_commands(text: str, shown: list[str] | None) -> None:
    assert fitted(text, 60).splitlines() == (shown or [text])
    assert fitted(text, None) == text


def test_each_command_of_the_program_is_known_where_lines_are_broken() -> None:
    for name in COMMANDS:
        assert fitted(text := f"sweeps {name} --flag {'x' * 20}", 24) == text


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python has no distutils that setuptools replaces")
def test_setuptools_can_be_imported_after_a_package_was_missing() -> None:
    """An older Triton imports it with PyTorch."""
    code = "from sweeps.common.formatting import pip_install\npip_install('x')\nimport setuptools"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [("modèle", "mod-le"), ("best of May (kept)", "best-of-May-kept"), ("_net.v2", "net.v2"), ("模型", "")],
)
def test_a_plain_name_is_one_for_a_sweep(text: str, expected: str) -> None:
    assert plain_name(text) == expected
    assert plain_name("x" * 200, 80) == "x" * 80
