"""`python -m sweeps.pcs down`: Ray stops on every PC (test_ray_cluster.py), or who can not is said."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.support.cluster_of_pcs import CLUSTER_FILE, PYTHON, set_up, write
from tests.support.lab import Lab

DOWN = (PYTHON, "-m", "sweeps.pcs", "down", str(CLUSTER_FILE))


@pytest.mark.slow
def test_a_pc_where_ray_can_not_be_ended_is_named(lab_of: Callable[..., Lab]) -> None:
    head, bare, off = lab_of(3).pcs
    set_up(head)
    bare.sshd()
    write(head, head, [bare, off])
    off.power_cut()
    ended = head.run(*DOWN, check=False, timeout_s=120)
    assert ended.returncode == 1
    first, second = ended.stdout.splitlines()[-2:]
    assert first.startswith(f"{bare.address}: ~/sweeps/.venv/bin/ray stop: ")
    assert "No such file" in first
    assert re.match(rf"{off.address}: ssh: .*(No route to host|timed out)", second)
