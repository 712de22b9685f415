"""Memory runs out, and the kernel kills the process of a trial, or one of Ray's own."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from sweeps.record.record import Record
from tests.conftest import TOY, Command
from tests.support import memory_groups
from tests.support.steered import alive_after, epochs, running


@pytest.mark.long
def test_it_is_told_so_and_the_trial_goes_on(
    sweep: Command, environment: dict[str, str], tmp_path: Path
) -> None:
    with memory_groups.made() as group:
        environment["TOY_CGROUP"] = str(group)
        done = sweep(
            "--no-baseline",
            *("--trainable", "tests.faulty.toy", "--search-space", "tests.faulty.slopes"),
            *("--params", "fault=exhausts", "--searcher", "random", "--scheduler", "none"),
            *("--num-trials", "1", "--max-epochs", "3", "--checkpoint-epochs", "1"),
            *("--no-preflight", "--no-ray-dashboard", "--name", "s", "--results-dir", str(tmp_path)),
        )
    assert done.returncode == 0, done.stdout + done.stderr
    told = (
        f"Trial 0 lost its process on {platform.node()}: killed by the kernel: out of memory; it is requeued"
    )
    assert told in done.stdout
    (trial,) = Record.read(tmp_path / "s").trials
    assert (trial.status, list(trial.epochs)) == ("finished", [1, 2, 3])


@pytest.mark.long
@pytest.mark.parametrize("name", ["raylet", "gcs_server"])
def test_the_end_of_ray_is_told_and_the_sweep_can_be_resumed(
    name: str, environment: dict[str, str], tmp_path: Path
) -> None:
    """Ray ends this process then, some seconds later, without the sweep's last words."""
    notified, folder = tmp_path / "notified", tmp_path / "s"
    toy = (
        *TOY,
        "--scheduler",
        "none",
    )
    words = (*toy, "--max-epochs", "200", "--params", "epoch_s=0.1", "--num-trials", "2")
    notify = ("--notify-command", f"echo $SWEEP_OUTCOME $SWEEP_STATUS > {notified}")
    with running(folder, environment, *words, *notify, "--no-preflight") as sweep:
        sweep.wait_until("a trial trains", lambda record: epochs(record, 0) > 0)
        below = sweep.kill_below(name)
        assert sweep.wait() == 1
        # Ray's agents look for its head for up to a minute, and a busy PC takes a while to end processes.
        assert not alive_after(90, below)
        said, trained = sweep.printed, epochs(lost := sweep.record(), 0)
        sweep.start()
        sweep.wait_until("it is resumed", lambda record: epochs(record, 0) > trained)
    # Where the PC is busy, another of Ray's processes may be gone by the time of the look.
    assert "The sweep stopped: Ray on this PC has ended (its process " in said, said
    assert "All results so far are recorded." in said
    assert re.search(r"Resume +\S*sweeps run --resume ", said)
    assert "Raylet is terminated" not in said, "its log"
    assert notified.read_text() == "lost 1\n"
    assert (folder / "report.html").is_file()
    assert lost.info.outcome == "lost"


@pytest.mark.long
def test_the_end_of_ray_before_the_first_trial_is_told(environment: dict[str, str], tmp_path: Path) -> None:
    """Tune sets its processes up then, by calls to Ray that nothing interrupts."""
    toy = (
        *TOY,
        "--num-trials",
        "1",
    )
    notify = ("--notify-command", f"echo $SWEEP_OUTCOME > {tmp_path / 'notified'}")
    with running(tmp_path / "s", environment, *toy, "--max-epochs", "1", *notify) as sweep:
        sweep.wait_for("\nray        1 PC")
        sweep.kill_below("gcs_server")
        assert sweep.wait() == 1
        assert "Ray on this PC has ended (its process gcs_server is gone" in sweep.printed
        assert "All results so far are recorded" in sweep.printed
        assert f"sweeps run --resume {tmp_path / 's'}" in sweep.printed
        assert (tmp_path / "notified").read_text() == "lost\n"
