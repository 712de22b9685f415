"""`--json`: the standard output has lines of JSON alone, the last one of them with the exit status."""

from __future__ import annotations

import fcntl
import json
import signal
import struct
import subprocess
import sys
import termios
import time
from typing import Any

import pytest

from sweeps.common.cli import json_output
from sweeps.common.cli.dispatch import dispatch, status_of
from sweeps.common.cli.parser import Parser
from sweeps.common.errors import CannotContinue, UserError

PROGRAM = """
import subprocess, sys
from sweeps.common.cli import json_output
from sweeps.common.cli.dispatch import status_of
from sweeps.common.cli.parser import Parser

def program():
    Parser("sweeps x", "%(prog)s", "").values_of(["--json"])
    print("for people")
    subprocess.run(["echo", "of another program"])
    json_output.write("report", epoch=1)
    {more}
    return 0

status = status_of(program)
print("after")
sys.exit(status)
"""


def run(more: str, **options: Any) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", PROGRAM.format(more=more)]
    return subprocess.run(words, stderr=subprocess.PIPE, text=True, timeout=60, **options)


def lines(text: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in text.splitlines()]
    assert all(isinstance(line.pop("time"), float) for line in found)
    return found


def asked(fault: BaseException | None = None, **answer: Any) -> int:
    """The exit status of a program that is asked for JSON."""

    def program() -> int:
        Parser("sweeps x", "%(prog)s", "").values_of(["--json"])
        json_output.answer(**answer)
        if fault is not None:
            raise fault
        return 0

    return status_of(program)


def test_text_for_people_goes_to_the_standard_error_also_of_other_programs() -> None:
    done = run("pass", stdout=subprocess.PIPE)
    *of_json, after = done.stdout.splitlines()
    assert after == "after", "the standard output is given back"
    assert lines("\n".join(of_json)) == [{"event": "report", "epoch": 1}, {"event": "end", "exit_status": 0}]
    assert done.stderr == "for people\nof another program\n"


def test_a_reader_that_has_gone_ends_no_command() -> None:
    words = [sys.executable, "-c", PROGRAM.format(more="[json_output.write('report') for _ in range(9999)]")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        text = process.stderr.read()  # the last print of the program itself breaks, and not those of JSON
    assert text.startswith(b"for people\nof another program\n")
    assert b"json_output" not in text


STOPPED = """
import signal
from sweeps.common.cli import json_output

json_output.turn_on_where_asked(["--json"])
signal.signal(signal.SIGTERM, lambda *_: json_output.write("notice", text="stopping"))
with json_output.last_line() as end:
    json_output.write("report", text="x" * 500_000)  # more than a pipe holds
    end["exit_status"] = 0
"""


def test_a_signal_amid_a_line_that_nobody_reads_yet_is_told_behind_it() -> None:
    with subprocess.Popen([sys.executable, "-c", STOPPED], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while struct.unpack("i", fcntl.ioctl(process.stdout, termios.FIONREAD, bytes(4)))[0] < 4096:
            time.sleep(0.01)  # it is writing: its line does not fit
        process.send_signal(signal.SIGTERM)
        try:
            out, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    assert [line["event"] for line in lines(out.decode())] == ["report", "notice", "end"]


@pytest.mark.parametrize(
    ("fault", "status", "error"),
    [
        (UserError("no\nsuch"), 2, "no\nsuch"),
        (CannotContinue("no network"), 1, "no network"),
        (KeyboardInterrupt(), 130, "Interrupted."),
        (SystemExit(0), 0, None),
        (SystemExit(3), 3, None),
        (ZeroDivisionError("by 0"), 1, "ZeroDivisionError: by 0"),
    ],
)
def test_the_last_line_says_how_it_ended(
    fault: BaseException, status: int, error: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    if isinstance(fault, SystemExit | ZeroDivisionError):
        with pytest.raises(type(fault)):
            asked(fault, folder="results/a")
    else:
        assert asked(fault, folder="results/a") == status
    (end,) = lines(capsys.readouterr().out)
    expected = {"event": "end", "exit_status": status, "folder": "results/a"}
    assert end == expected | ({} if error is None else {"error": error})


def test_numbers_that_json_does_not_have_are_null_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    score, inf = float("nan"), float("inf")
    assert asked(score=score, metrics={"loss": inf, "acc": 0.5}, values=[1.0, -inf]) == 0
    (end,) = lines(capsys.readouterr().out)
    assert (end["score"], end["metrics"], end["values"]) == (None, {"loss": None, "acc": 0.5}, [1.0, None])
    reasons = {"score": "nan", "metrics.loss": "infinity", "values.1": "-infinity"}
    assert end["not_finite"] == reasons


def test_a_mistake_in_the_flags_is_told_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    def program() -> int:
        Parser("sweeps x", "%(prog)s", "").values_of(["--jason", "--json"])
        return 0

    assert status_of(program) == 2
    out, err = capsys.readouterr()
    assert lines(out)[0]["error"].startswith("--jason: no such flag. Did you mean '--json'?")
    assert "--jason" in err
    assert dispatch("", {"run": "it"}, lambda *_: 0, ["rnu", "--json"]) == 2
    assert lines(capsys.readouterr().out)[0]["error"].startswith("rnu: no such command.")


def test_a_command_within_a_command_has_no_last_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    def outer() -> int:
        Parser("sweeps x", "%(prog)s", "").values_of(["--json"])
        inner = asked(folder="results/a")
        json_output.answer(files=[])
        return inner

    assert status_of(outer) == 0
    assert lines(capsys.readouterr().out) == [
        {"event": "end", "exit_status": 0, "folder": "results/a", "files": []}
    ]


def test_without_the_flag_and_with_help_nothing_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    with json_output.last_line() as end:
        json_output.write("report", epoch=1)
        json_output.turn_on_where_asked(["--help", "--json"])
        json_output.answer(folder="results/a")
        end["exit_status"] = 0
    assert capsys.readouterr() == ("", "")


def test_a_further_worker_of_a_run_prints_none(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.setattr(json_output, "_has_lines", True)
    json_output.leave_lines_to_first()
    assert asked() == 0
    assert capfd.readouterr().out == ""


def test_lines_of_the_same_command_elsewhere_are_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    def program() -> int:
        assert not json_output.relay('{"event": "report"}'), "it is not asked for"
        Parser("sweeps x", "%(prog)s", "").values_of(["--json"])
        there = (
            '{"event": "report", "time": 1.5, "id": 3}',
            '{"event": "end", "time": 2.5, "exit_status": 1}',
        )
        assert all(map(json_output.relay, there))
        assert json_output.relay('{"event": "end", "time": 3.5, "exit_status": 1, "outcome": "lost"}')
        assert not any(map(json_output.relay, ("Starting Ray ...", '{"event": "rep')))
        return 1

    assert status_of(program) == 1
    out = capsys.readouterr().out
    assert json.loads(out.splitlines()[0])["time"] == 1.5
    assert lines(out) == [
        {"event": "report", "id": 3},
        {"event": "end", "exit_status": 1, "outcome": "lost"},
    ]


def test_a_text_that_is_not_utf_8_is_escaped_and_loses_no_line() -> None:
    more = 'print("of people \\udcff"); json_output.answer(folder="r\\udcff", ok="ü")'
    done = run(more, stdout=subprocess.PIPE)
    assert "of people \\udcff" in done.stderr
    (end,) = [json.loads(line) for line in done.stdout.splitlines() if '"end"' in line]
    assert (end["folder"], end["ok"], end["exit_status"]) == ("r\udcff", "ü", 0)
