"""What a PC knows of a process that has ended."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from sweeps.trial import post_mortem
from tests.support import memory_groups


def test_it_reads_the_last_words_and_the_count_of_the_kernel(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text("last words\n")
    assert post_mortem.examine(str(file)) == ("last words\n", post_mortem.oom_kills())
    assert not file.exists()


EXHAUSTS = """
import os, sys
with open(sys.argv[1] + "/cgroup.procs", "w") as members:
    members.write(str(os.getpid()))
bytearray(2**28)
"""


def test_the_kernel_counts_a_process_that_it_kills_for_want_of_memory() -> None:
    before = post_mortem.oom_kills()
    with memory_groups.made() as group:
        killed = subprocess.run([sys.executable, "-c", EXHAUSTS, str(group)], timeout=60)
        assert killed.returncode == -signal.SIGKILL
    assert post_mortem.oom_kills() > before
