"""Workers that torchrun or Slurm have started."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.common.errors import UserError
from sweeps.training.distributed import launch
from sweeps.training.distributed.launch import Launch
from sweeps.training.single_run import run_settings
from tests.conftest import ROOT

TORCHRUN = {"TORCHELASTIC_RUN_ID": "none", "LOCAL_WORLD_SIZE": "2", "WORLD_SIZE": "6", "RANK": "3"}
SLURM = {"SLURM_NTASKS": "8", "SLURM_NNODES": "4", "SLURM_PROCID": "5", "SLURM_JOB_NAME": "train"}


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, None),
        (TORCHRUN, Launch("torchrun", 2, 3)),
        (SLURM, Launch("Slurm", 2, 4)),
        ({**SLURM, "SLURM_JOB_NAME": "interactive"}, None),
        ({"SLURM_NTASKS": "8"}, None),  # salloc: no task of a step
    ],
)
def test_who_has_started_the_workers_is_known(environment: dict[str, str], found: Launch | None) -> None:
    assert launch.find_launch(environment) == found


SHELL = {**SLURM, "SLURM_JOB_NAME": "bash", "SLURM_PROCID": "0"}


@pytest.mark.parametrize(
    ("environment", "is_first"),
    [
        ({}, True),
        (TORCHRUN, False),
        (SLURM, False),
        ({**SLURM, "SLURM_PROCID": "0"}, True),
        (SHELL, True),
        ({**SHELL, "LOCAL_RANK": "1"}, False),  # started by Lightning, in a shell of srun
        ({"NODE_RANK": "1", "LOCAL_RANK": "0"}, False),
        ({"LOCAL_RANK": "0"}, True),
    ],
)
def test_the_first_worker_knows_itself(environment: dict[str, str], is_first: bool) -> None:
    assert launch.is_first(environment) is is_first


@pytest.fixture
def under_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)


def test_the_workers_are_as_many_as_were_started(under_torchrun: None, tmp_path: Path) -> None:
    run = run_settings.parse(["digits_mlp", "--results-dir", str(tmp_path)])[0]
    assert (run.fit.devices, run.fit.num_nodes) == (2, 3)


def test_another_number_is_refused(under_torchrun: None) -> None:
    with pytest.raises(UserError, match="--devices 4: torchrun has started 2; omit --devices"):
        run_settings.parse(["digits_mlp", "--devices", "4"])


def test_tries_are_refused_where_others_start_the_workers(under_torchrun: None) -> None:
    with pytest.raises(UserError, match="--find-batch-size: it starts the workers of its tries itself"):
        run_settings.parse(["digits_mlp", "--find-batch-size"])


def test_several_pcs_want_somebody_who_starts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(UserError, match="--num-nodes 2: start the run on each PC by torchrun or Slurm"):
        run_settings.parse(["digits_mlp", "--num-nodes", "2"])


def test_a_worker_leaves_with_its_words_and_without_the_end_of_its_interpreter() -> None:
    code = (
        "import atexit\nfrom sweeps.training.distributed import launch\n"
        "atexit.register(print, 'the end')\nprint('done')\nlaunch.leave(3)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (3, "done\n", "")


@pytest.mark.slow
def test_two_processes_of_torchrun_train_together(tmp_path: Path) -> None:
    """Of their interpreters, only the first worker's comes to its end."""
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, os, pathlib\nrank = os.environ.get('RANK')\n"
        "if rank is not None:\n    atexit.register(pathlib.Path(__file__).with_name(f'end-{rank}').touch)\n"
    )
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    flags = ("--max-epochs", "2", "--strategy", "ddp", "--threads", "1", "--name", "it")
    command = [*torchrun, "-m", "sweeps.fit", "digits_mlp", *flags]
    done = _run(command, tmp_path, {"PYTHONPATH": f"{tmp_path}:{ROOT}"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Best       val_acc") == 1  # one of them speaks
    assert [path.name for path in tmp_path.glob("end-*")] == ["end-0"]
    assert len((tmp_path / "results/it/epochs.jsonl").read_text().splitlines()) == 2


@pytest.mark.long
def test_two_tasks_as_slurm_starts_them_train_together(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    flags = ("--max-epochs", "2", "--strategy", "ddp", "--threads", "1", "--name", "it")
    command = [sys.executable, "-m", "sweeps.fit", "digits_mlp", *flags]
    tasks = []
    for rank in range(2):
        # What srun sets for 2 tasks on a node; https://slurm.schedmd.com/srun.html
        environment = {
            **os.environ,
            **{"PYTHONPATH": str(ROOT), "MASTER_PORT": port, "SLURM_JOB_NAME": "train"},
            **{"SLURM_JOB_ID": "17", "SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2", "SLURM_NNODES": "1"},
            **{"SLURM_NODELIST": "127.0.0.1", "SLURM_NODEID": "0"},
            **{"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)},
        }
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        tasks.append(subprocess.Popen(command, cwd=tmp_path, env=environment, **pipes))  # type: ignore[call-overload]
    outputs = [task.communicate(timeout=200)[0] for task in tasks]
    assert [task.returncode for task in tasks] == [0, 0], outputs
    assert "Best       val_acc" in outputs[0]
    assert outputs[1].strip() == ""
    epochs = (tmp_path / "results/it/epochs.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in epochs] == [1, 2]


def _run(command: list[str], folder: Path, more: dict[str, str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)
