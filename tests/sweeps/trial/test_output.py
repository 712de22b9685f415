"""What a trial's process prints is kept, whoever prints it, and what it printed last outlives it."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sweeps.trial import output
from sweeps.trial.output import EXIT, LEFT_S, MOST_BYTES, MOST_ON_DISK_BYTES

PRINTS = """
import os, subprocess, sys
from sweeps.trial import output
before = os.dup(1)
path = output.start()
print("of python")
os.write(2, b"of c\\n")
subprocess.run(["echo", "of a child"])
taken, again = output.take(), output.take()
print("last words")
sys.stdout.flush()
os.write(before, repr((path, taken, again)).encode())
os._exit(3)
"""


def test_all_that_a_process_prints_is_taken_once_and_the_rest_is_left(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", PRINTS], capture_output=True, text=True)
    path, taken, again = ast.literal_eval(done.stdout)
    assert sorted(taken.splitlines()) == ["of a child", "of c", "of python"]
    assert again == ""
    assert done.returncode == 3
    assert output.last_words(path) == f"last words\n{EXIT}3\n"
    assert not Path(path).exists()
    assert output.last_words(path) == ""


def test_of_very_much_the_middle_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_bytes(b"first\n" + b"x" * MOST_BYTES + b"\nlast\n")
    words = output.last_words(str(file))
    assert words.startswith("first\n")
    assert words.endswith("\nlast\n")
    assert "\n[12 bytes are left out]\n" in words


def test_nothing_is_taken_where_nothing_is_kept() -> None:
    assert output.take() == ""


def test_each_line_names_the_worker_that_printed_it() -> None:
    assert output.marked("one\ntwo", 3) == "[worker 3] one\n[worker 3] two\n"
    assert output.marked("", 3) == ""


PRINTS_MUCH = """
import os, sys, time
from sweeps.trial import output
before = os.dup(1)
path = output.start()
os.write(1, b"first\\n")
for turn in range(2):
    os.write(1, b"x" * (output.MOST_ON_DISK_BYTES + 1))
    while os.stat(path).st_size > output.MOST_ON_DISK_BYTES:
        time.sleep(0.01)
os.write(1, b"\\nlast\\n")
if sys.argv[1] == "take":
    os.write(before, output.take().encode())
    output.remove(path)
else:
    os.write(before, path.encode())
"""


@pytest.mark.parametrize("reader", ["take", "last_words"])
def test_the_file_is_bounded_between_two_results(reader: str) -> None:
    """It is shortened twice before it is read, and the bytes that are left out are counted rightly."""
    command = [sys.executable, "-c", PRINTS_MUCH, reader]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    text = done.stdout if reader == "take" else output.last_words(done.stdout)
    assert text.startswith("first\nxxx")
    assert text.endswith("xxx\nlast\n")
    ((left_out,),) = [re.findall(r"\n\[([\d,]+) bytes are left out\]\n", text)]
    printed = 2 * (MOST_ON_DISK_BYTES + 1) + len("first\n\nlast\n")
    assert int(left_out.replace(",", "")) == printed - MOST_BYTES


WAITS = """
import time
from sweeps.trial import output
path = output.start()
open(path + ".started", "w").close()
time.sleep(600)
"""


def test_a_killed_process_leaves_a_file_that_a_later_one_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    started: list[tuple[subprocess.Popen[bytes], Path]] = []

    def start() -> None:
        known = set(tmp_path.glob("*.started"))
        process = subprocess.Popen([sys.executable, "-c", WAITS])
        while not (new := set(tmp_path.glob("*.started")) - known):
            assert process.poll() is None
            time.sleep(0.01)
        started.append((process, new.pop().with_suffix("")))

    def kill(process: subprocess.Popen[bytes]) -> None:
        process.send_signal(signal.SIGKILL)
        process.wait()

    start(), start(), start()
    (killed, old), (killed_just_now, new), (_, in_use) = started
    kill(killed), kill(killed_just_now)
    long_ago = time.time() - LEFT_S - 1
    for path in (old, in_use):
        os.utime(path, (long_ago, long_ago))
    start()
    assert (old.exists(), new.exists(), in_use.exists()) == (False, True, True)
    for process, _ in started:
        kill(process)
