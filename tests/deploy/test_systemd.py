"""The units: systemd takes them, and what that of a cluster runs joins, joins again after a cut, and leaves.

What the other one runs: tests/end_to_end/test_shared_ray.py.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps import up
from tests.conftest import ROOT
from tests.support.cluster_of_pcs import give_token, nodes, set_up, start_head
from tests.support.lab import HOME, Lab, wait_until

UNIT = ROOT / "deploy" / "systemd" / "sweeps-pc.service"
OF_RAY = UNIT.with_name("sweeps-ray.service")


def service() -> dict[str, str]:
    """Its settings; of one that stands twice, both."""
    found: dict[str, str] = {}
    lines = UNIT.read_text().partition("[Service]")[2].partition("\n[")[0].splitlines()
    for line in lines:
        if line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found[name] = f"{found[name]} {value}" if name in found else value
    return found


def verified(unit: Path, home: Path) -> str:
    """What systemd finds wrong."""
    (programs := home / "sweeps" / ".venv" / "bin").mkdir(parents=True)
    for name in ("ray", "sweeps"):
        (programs / name).symlink_to("/bin/true")
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(unit)],
        env={**os.environ, "HOME": str(home), "XDG_RUNTIME_DIR": str(home)},
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
@pytest.mark.parametrize("unit", [UNIT, OF_RAY], ids=lambda unit: unit.stem)
def test_systemd_takes_the_unit_and_not_a_wrong_one(unit: Path, tmp_path: Path) -> None:
    assert verified(unit, tmp_path / "home") == ""
    wrong = tmp_path / unit.name
    wrong.write_text(unit.read_text().replace("KillMode=mixed", "KillMode=often"))
    assert "kill mode" in verified(wrong, tmp_path / "other")


def test_the_unit_of_ray_runs_a_command_that_there_is() -> None:
    (line,) = [line for line in OF_RAY.read_text().splitlines() if line.startswith("ExecStart=")]
    program, name, *flags = line.removeprefix("ExecStart=").split()
    assert (Path(program).name, name) == ("sweeps", "up")
    assert up.parse(flags) == (True, True)


def words_of_the_unit(head: str) -> tuple[list[str], dict[str, str]]:
    """What it runs and in which environment, for a head of ours."""
    unit = service()
    settings = dict(word.split("=", 1) for word in unit["Environment"].replace("%h", str(HOME)).split())
    settings["HEAD"] = head
    command = unit["ExecStart"].replace("%h", str(HOME)).replace("${HEAD}", head)
    return shlex.split(command), settings


@pytest.mark.long
def test_a_pc_joins_joins_again_after_a_cut_and_leaves(lab_of: Callable[..., Lab]) -> None:
    """By the unit's command and settings, started again whenever it ends, as `Restart=always` says."""
    assert service()["Restart"] == "always"
    head, worker = lab_of(2).pcs
    address = start_head(head)
    set_up(worker)
    give_token(worker)
    command, settings = words_of_the_unit(address)
    both, alone = [head.address, worker.address], [head.address]
    ends = "trap 'kill -TERM $ray; wait $ray; exit' TERM"
    again = f"{ends}; while :; do {shlex.join(command)} & ray=$!; wait $ray; sleep 1; done"
    with worker.start("bash", "-c", again, env=settings) as loop:
        wait_until(lambda: nodes(head) == both, "the PC to join", timeout_s=120)
        worker.unplug()
        wait_until(lambda: nodes(head) == alone, "the loss to be seen", timeout_s=120)
        worker.plug_in()
        wait_until(lambda: nodes(head) == both, "the PC to join again", timeout_s=180)
        worker.signal(loop, signal.SIGTERM)
        wait_until(lambda: nodes(head) == alone, "the PC to leave", timeout_s=120)
        loop.communicate(timeout=60)
    assert "raylet" not in worker.run("ps", "-A").stdout
