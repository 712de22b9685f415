"""What a trial's process prints is kept, whoever prints it, and what it printed last outlives it."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sweeps.trial import output
from sweeps.trial.output import EXIT, GIVEN_UP, LEFT_S, LOST, MOST_BYTES

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
    assert output.examine(path)[0] == f"last words\n{EXIT}3\n"
    assert not Path(path).exists()
    assert output.examine(path)[0] == ""


REPLACES = """
import os, sys
from sweeps.trial import output
before = os.dup(1)
output.start()
print("of python")
sys.stderr = object()
sys.stdout.close()
os.write(before, repr(output.take()).encode())
"""


def test_a_stream_that_the_users_code_closes_or_replaces_is_no_failure_of_later_trials() -> None:
    done = subprocess.run([sys.executable, "-c", REPLACES], capture_output=True, text=True)
    assert ast.literal_eval(done.stdout) == "of python\n"


FORKS = """
import multiprocessing, os, sys
from sweeps.trial import output
before = os.dup(1)
path = output.start()
worker = multiprocessing.get_context("fork").Process(target=print, args=("of a fork",))
worker.start()
worker.join()
os.write(before, path.encode())
os.kill(os.getpid(), 9)
"""


def test_a_fork_that_ends_does_not_tell_how_the_process_has_ended() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True)
    words = output.examine(done.stdout)[0]
    assert words == "of a fork\n"
    assert output.why_ended(words, is_oom=True) == output.KILLED_FOR_MEMORY


FULL = """
import os
from sweeps.trial import output
output.start()
print("step 5")
os.close(1), os.close(2)
output.give_up("a worker is lost")
"""


def test_a_process_that_gives_up_ends_also_where_its_output_takes_nothing_more() -> None:
    assert subprocess.run([sys.executable, "-c", FULL]).returncode == LOST


def test_of_very_much_the_middle_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_bytes(b"first\n" + b"x" * MOST_BYTES + b"\nlast\n")
    words = output.examine(str(file))[0]
    assert words.startswith("first\n")
    assert words.endswith("\nlast\n")
    assert "\n[12 bytes are left out]\n" in words


def test_nothing_is_taken_where_nothing_is_kept() -> None:
    assert output.take() == ""


def test_what_another_process_printed_is_taken_with_the_rest() -> None:
    output.add("[worker 1] a\n")
    output.add("[worker 2] b\n")
    assert (output.take(), output.take()) == ("[worker 1] a\n[worker 2] b\n", "")


GIVES_UP = """
import sys
from sweeps.trial import output
output.add(sys.argv[1])
output.give_up("a worker is lost")
"""


@pytest.mark.parametrize("words", ["", "step 5", "step 5\n"])
def test_a_process_that_gives_up_says_why_in_a_line_of_its_own(words: str) -> None:
    done = subprocess.run([sys.executable, "-c", GIVES_UP, words], capture_output=True, text=True)
    assert done.stderr == "".join([words and "step 5\n", f"{GIVEN_UP}a worker is lost\n"])
    assert done.returncode == LOST


def test_each_line_names_the_worker_that_printed_it() -> None:
    assert output.marked("one\ntwo", 3) == "[worker 3] one\n[worker 3] two\n"
    assert output.marked("", 3) == ""
    assert output.marked("one\ntwo", 0) == "one\ntwo", "of the first as it is"


WAITS = """
import time
from sweeps.trial import output
path = output.start()
open(path + ".started", "w").close()
time.sleep(600)
"""


@pytest.mark.slow
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
