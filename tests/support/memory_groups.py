"""A control group of the kernel with little memory: a process in it that takes more is killed by the kernel.

https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files and, for version 1,
https://docs.kernel.org/admin-guide/cgroup-v1/memory.html
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

LIMIT_BYTES = 64 * 2**20
"""Of what its processes take after they have joined, by writing their id into its file `cgroup.procs`."""
_ROOT = Path("/sys/fs/cgroup")
_LIMITS = {
    _ROOT: {"memory.max": LIMIT_BYTES, "memory.swap.max": 0},
    _ROOT / "memory": {"memory.limit_in_bytes": LIMIT_BYTES, "memory.memsw.limit_in_bytes": LIMIT_BYTES},
}
"""By where groups are made, in version 2 and in version 1: the limits of memory, and of memory with swap."""


_EXHAUSTS = """
import os, sys
with open(sys.argv[1] + "/cgroup.procs", "w") as members:
    members.write(str(os.getpid()))
bytearray(2**28)
"""


def exhaust() -> None:
    """Let the kernel kill a process for want of memory; the test is skipped where no group can be made."""
    with made() as group:
        killed = subprocess.run([sys.executable, "-c", _EXHAUSTS, str(group)], timeout=60)
        assert killed.returncode == -signal.SIGKILL


@contextlib.contextmanager
def made() -> Iterator[Path]:
    """Such a group, for a while; the test is skipped where none can be made."""
    parent = _ROOT if (_ROOT / "cgroup.controllers").exists() else _ROOT / "memory"
    group = parent / f"sweeps-test-{uuid.uuid4().hex}"
    try:
        if parent == _ROOT:
            (parent / "cgroup.subtree_control").write_text("+memory")
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        of_memory, of_swap = _LIMITS[parent].items()
        try:
            (group / of_memory[0]).write_text(str(of_memory[1]))
        except OSError as error:
            pytest.skip(f"the memory of a control group can't be limited: {error}")
        with contextlib.suppress(OSError):  # a kernel may not count swap
            (group / of_swap[0]).write_text(str(of_swap[1]))
        yield group
    finally:
        group.rmdir()
