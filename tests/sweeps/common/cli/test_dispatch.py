"""A command of several subcommands."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.common.cli.dispatch import dispatch, status_of
from sweeps.common.errors import UserError
from tests.conftest import ROOT

COMMANDS = {"check": "Find what is wrong.", "drain": "Take a PC out."}


def typed(*words: str, status: int = 0) -> tuple[int, list[list[str]]]:
    """The exit status, and the calls of a subcommand."""
    calls = []

    def call(name: str, rest: list[str]) -> int:
        calls.append([name, *rest])
        return status

    return dispatch("sweeps pcs", COMMANDS, call, words), calls


def test_a_subcommand_gets_the_words_behind_it_and_its_status_is_that_of_all() -> None:
    assert typed("drain", "pc2", "--help", status=3) == (3, [["drain", "pc2", "--help"]])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["chek"], "chek: no such command. Did you mean 'check'? Choices: check, drain"),
        ([], "give a command. Choices: check, drain"),
        (["--flag", "check"], "--flag: no such command. Choices: check, drain"),
    ],
)
def test_a_word_that_is_none_is_answered_with_those_that_there_are(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(*words) == (2, [])
    assert capsys.readouterr().err == f"error: {said}\n"


def test_help_has_a_line_for_each_and_calls_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("--help", "drain") == (0, [])
    shown = capsys.readouterr().out.splitlines()
    assert "  check  Find what is wrong." in shown
    assert "  drain  Take a PC out." in shown


def test_a_mistake_that_a_subcommand_finds_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    def call(name: str, rest: list[str]) -> int:
        raise UserError("pc9: no such PC")

    assert dispatch("", COMMANDS, call, ["drain"]) == 2
    assert capsys.readouterr().err == "error: pc9: no such PC\n"


def test_a_home_folder_of_no_user_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    def call(name: str, rest: list[str]) -> int:
        return len(Path(rest[0]).expanduser().parts)

    assert dispatch("", COMMANDS, call, ["drain", "~no-such-user/data"]) == 2
    assert capsys.readouterr().err.startswith("error: a path begins with ~ and the name of no user")


def test_a_folder_that_was_deleted_under_the_command_is_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert typed("drain") == (1, [])
    assert capsys.readouterr().err.startswith("error: the current folder has been deleted")


HIDDEN = """
import sys
from sweeps.common.cli.dispatch import status_of
def program():
    import {name}.console
sys.exit(status_of(program))
"""


@pytest.mark.parametrize("name", ["rich", "tqdm"])
def test_a_file_that_hides_a_package_of_the_messages_too_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").touch()
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN.format(name=name)], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: ModuleNotFoundError: No module named '{name}.console'")
    assert f"{name}.py has the name of a module that libraries import" in line


@pytest.mark.parametrize(
    ("output", "status", "said"),
    [
        (">/dev/full", 1, "error: the standard output can't be written: No space left on device\n"),
        (">&-", 0, ""),
    ],
)
def test_an_output_that_can_not_be_written_costs_a_line_and_no_traceback(
    output: str, status: int, said: str
) -> None:
    program = "import sys; from sweeps.common.cli.dispatch import status_of\n"
    program += "sys.exit(status_of(lambda: print('some words', flush=True) or 0))"
    done = subprocess.run(
        ["sh", "-c", f'"$0" -c "$1" {output}', sys.executable, program],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (status, said)


def test_an_output_that_nobody_reads_any_more_ends_a_command_in_silence() -> None:
    program = "import sys; from sweeps.common.cli.dispatch import status_of\n"
    program += "sys.exit(status_of(lambda: print('some words', flush=True) or 0))"
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=writing, stderr=subprocess.PIPE, text=True, cwd=ROOT,
            check=False, timeout=60,
        )  # fmt: skip
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_an_output_that_takes_nothing_now_costs_a_line_and_no_traceback() -> None:
    """Another program may have set a pipe that it shares to wait for nobody."""
    program = "import os, sys; from sweeps.common.cli.dispatch import status_of; os.set_blocking(1, False)\n"
    program += "sys.exit(status_of(lambda: print('words' * 10**5, flush=True) or 0))"
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=writing, stderr=subprocess.PIPE, text=True, cwd=ROOT,
            check=False, timeout=60, env={**os.environ, "PYTHONUNBUFFERED": ""},
        )  # fmt: skip
    finally:
        os.close(reading)
        os.close(writing)
    said = f"error: the standard output can't be written: {os.strerror(errno.EAGAIN)}\n"
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.parametrize(
    ("fault", "status", "said"),
    [("None", 0, ""), ("open('/nowhere/it')", 1, "FileNotFoundError: [Errno 2] No such file")],
)
def test_what_a_lenient_block_can_not_write_hides_no_error_and_is_none(
    fault: str, status: int, said: str
) -> None:
    program = "import sys; from sweeps.common.cli import dispatch, terminal\n"
    program += "def it():\n with terminal.lenient():\n  print('some words', flush=True)\n"
    program += f"  {fault}\n  return 0\nsys.exit(dispatch.status_of(it))"
    done = subprocess.run(
        ["sh", "-c", '"$0" -c "$1" >/dev/full', sys.executable, program],
        capture_output=True, text=True, cwd=ROOT, check=False, env={**os.environ, "PYTHONUNBUFFERED": ""},
    )  # fmt: skip
    assert done.returncode == status
    assert (done.stderr.splitlines() or [""])[-1].startswith(said)


@pytest.mark.parametrize("file", ["/disk/it", None])
def test_a_full_disk_costs_a_line_and_no_traceback(
    file: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    def full() -> int:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), file)

    assert status_of(full) == 1
    where = "" if file is None else f"{file}: "
    assert capsys.readouterr().err == f"error: {where}{os.strerror(errno.EDQUOT)}\n"


def test_an_error_of_a_file_is_no_fault_of_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> int:
        return os.open("/nowhere/it", os.O_RDONLY)

    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(FileNotFoundError):
            status_of(lost)
