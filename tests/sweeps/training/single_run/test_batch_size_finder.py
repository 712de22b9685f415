"""The search for the largest micro-batch: real runs, with memory that ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from sweeps.common.errors import UserError
from sweeps.fit import main
from sweeps.kinds import registry
from sweeps.training.config import Precision
from sweeps.training.distributed import launch
from sweeps.training.distributed.strategy import Device
from sweeps.training.single_run import training_run
from sweeps.training.single_run.run_settings import SingleRun
from tests.conftest import ROOT
from tests.support.trainables import as_trainable

# Of digits_mlp, whose batches of $MOST_ROWS rows and more find no memory: what a GPU's allocator raises, an
# allocation that this process is not allowed, or the end of the process by the system.
MODEL = """
import os, resource, signal
import torch
from trainables.digits_mlp import METRIC, MODE, Params, build_data, describe_data
from trainables._shared.classifier import SgdClassifier

class Hungry(SgdClassifier):
    def training_step(self, batch, index):
        is_meant = os.environ["WORKER"] in ("", os.environ.get("LOCAL_RANK", "0"))
        if is_meant and len(batch[1]) > int(os.environ["MOST_ROWS"]):
            run_out(os.environ["RUNS_OUT_BY"])
        return super().training_step(batch, index)

def run_out(by):
    if by == "gpu":
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    if by == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if by == "bug":
        raise ValueError("rows of another shape")
    here = int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (here + 2**28, resource.RLIM_INFINITY))
    torch.empty(2**28).fill_(1.0)

def build_model(params):
    net = torch.nn.Sequential(torch.nn.Linear(64, params.hidden), torch.nn.Linear(params.hidden, 10))
    return Hungry(net, lr=params.lr, momentum=params.momentum, weight_decay=0.0)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "hungry.py").write_text(MODEL)
    return tmp_path


def fit(
    project: Path, *flags: str, most_rows: int, runs_out_by: str = "gpu", worker: int | str = ""
) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "MOST_ROWS": str(most_rows),
        "RUNS_OUT_BY": runs_out_by,
        "WORKER": str(worker),
    }
    command = [sys.executable, "-m", "sweeps.fit", "hungry", "--max-epochs", "1", "--name", "it", *flags]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.long
@pytest.mark.parametrize("runs_out_by", ["gpu", "cpu", "kill"])
def test_the_largest_micro_batch_that_fits_is_found_and_the_batch_stays(
    project: Path, runs_out_by: str
) -> None:
    done = fit(project, "--find-batch-size", "--batch-size", "12", most_rows=7, runs_out_by=runs_out_by)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "micro-batch of 6 rows x 2 x 1 worker" in done.stdout
    )  # 7 fit; those that make up 12 are 1, 2, 3, 4, 6 and 12
    settings = yaml.safe_load((project / "results/it/fit.yaml").read_text())
    assert (settings["micro_batch"], settings["params"]["batch_size"]) == (6, 12)


@pytest.mark.long
def test_a_batch_that_fits_whole_takes_one_try(project: Path) -> None:
    done = fit(project, "--find-batch-size", "--batch-size", "64", most_rows=1000)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"(\d+) rows +fits", done.stdout) == ["71"]  # 64 and the margin
    assert "micro-batch of 64 rows\n" in done.stdout


@pytest.mark.long
def test_where_not_even_one_row_fits_it_says_so(project: Path) -> None:
    done = fit(project, "--find-batch-size", most_rows=0)
    assert done.returncode == 2
    assert "--find-batch-size: not even a micro-batch of one row fits" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_try_that_fails_for_another_reason_is_no_answer(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    of_the_try = {"PYTHONPATH": str(ROOT), "MOST_ROWS": "0", "RUNS_OUT_BY": "bug", "WORKER": ""}
    for name, value in of_the_try.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(str(ROOT))
    assert main(["hungry", "--find-batch-size", "--max-epochs", "1", "--name", "it"]) == 2
    assert "rows of another shape" in capsys.readouterr().err


@pytest.mark.long
def test_a_run_that_does_not_fit_says_what_does_and_goes_on_so(project: Path) -> None:
    done = fit(project, "--batch-size", "12", most_rows=7)
    assert done.returncode == 3
    assert "CUDA out of memory" in done.stderr
    assert "Traceback" not in done.stderr
    assert "For a new run, try one of:\n  --" in done.stdout
    again = next(line for line in done.stdout.splitlines() if "--resume results/it --micro-batch 6" in line)
    flags = again.split("sweeps fit ")[1].split()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "MOST_ROWS": "7",
        "RUNS_OUT_BY": "gpu",
        "WORKER": "",
    }
    command = [sys.executable, "-m", "sweeps.fit", *flags]
    resumed = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert (project / "results/it/best/weights.pt").is_file()


@pytest.mark.long
def test_all_workers_of_a_strategy_try_together(project: Path) -> None:
    flags = ("--find-batch-size", "--batch-size", "12", "--devices", "2", "--threads", "1")
    done = fit(project, *flags, "--strategy", "deepspeed_stage_2", most_rows=4)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "micro-batch of 3 rows x 2 x 2 workers" in done.stdout


@pytest.mark.long
def test_ctrl_c_ends_the_try_too(project: Path) -> None:
    stays = "open('there', 'w').write(str(os.getpid())); import time; time.sleep(600)"
    text = MODEL.replace('if by == "bug":', f'if by == "stays":\n        {stays}\n    if by == "bug":')
    (project / "hungry.py").write_text(text)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "MOST_ROWS": "0",
        "RUNS_OUT_BY": "stays",
        "WORKER": "",
    }
    command = [sys.executable, "-m", "sweeps.fit", "hungry", "--find-batch-size", "--name", "it"]
    with subprocess.Popen(
        command, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        marker = project / "there"
        while not marker.exists() or not marker.read_text():
            assert run.poll() is None, run.communicate()
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=60)
    assert run.returncode == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(marker.read_text()), 0)


@pytest.mark.parametrize(
    ("failure", "workers", "fits"),
    [
        ("", 1, True),
        (launch.OUT_OF_MEMORY, 1, False),
        (launch.OUT_OF_MEMORY, 2, False),
        (launch.TIMED_OUT, 2, False),  # one may wait for one that is out of memory
    ],
)
def test_a_try_fits_or_does_not(failure: str, workers: int, fits: bool) -> None:
    assert training_run.does_fit(failure, 4, workers) is fits


def test_a_try_that_is_slow_says_nothing_of_memory() -> None:
    with pytest.raises(
        UserError, match="a try with 4 rows did not end within 10 min 0 s, so it is not known"
    ):
        training_run.does_fit(launch.TIMED_OUT, 4, workers=1)


@pytest.mark.long
def test_a_bug_of_another_worker_is_no_lack_of_memory(project: Path) -> None:
    flags = ("--find-batch-size", "--batch-size", "12", "--devices", "2", "--threads", "1")
    done = fit(project, *flags, "--strategy", "ddp", most_rows=0, runs_out_by="bug", worker=1)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "rows of another shape" in done.stderr


@pytest.mark.long
def test_where_the_system_kills_another_worker_it_does_not_fit(project: Path) -> None:
    flags = ("--find-batch-size", "--batch-size", "12", "--devices", "2", "--threads", "1")
    done = fit(project, *flags, "--strategy", "ddp", most_rows=4, runs_out_by="kill", worker=1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "micro-batch of 3 rows x 2 x 2 workers" in done.stdout


@pytest.mark.parametrize(
    ("precision", "device", "hint"),
    [
        ("auto", Device(None, True), ["--precision bf16-mixed"]),
        ("32", Device(24 * 10**9, True), ["--precision bf16-mixed"]),
        ("32", Device(24 * 10**9, False), ["--precision 16-mixed"]),  # older than Ampere
        ("auto", Device(24 * 10**9, True), []),  # is fp16 there
        ("bf16-mixed", Device(None, True), []),
    ],
)
def test_a_lower_precision_is_a_hint_where_there_is_one(
    precision: Precision, device: Device, hint: list[str]
) -> None:
    run = SingleRun.from_settings(
        trainable="digits_mlp", precision=precision, strategy="deepspeed_stage_2_offload"
    )
    found = training_run.smaller_settings(run, as_trainable(SimpleNamespace()), device)
    assert found == ["--find-batch-size", *hint]
    by_function = registry.find("tests.faulty.by_function")
    assert training_run.smaller_settings(run, by_function, device) == []


@pytest.mark.long
def test_another_worker_that_runs_out_of_memory_says_so(project: Path) -> None:
    flags = ("--batch-size", "12", "--devices", "2", "--threads", "1", "--strategy", "ddp")
    done = fit(project, *flags, most_rows=2, worker=1)
    assert done.returncode not in (0, 2)
    assert "error: worker 1 is out of memory: try --find-batch-size" in done.stderr
