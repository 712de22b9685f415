"""Trials share a GPU by the memory that the first ones took.

There is no GPU here: what trials take of one is told by the test. Ray and Tune, in the sweep of the last
test, are real, and give out the shares.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sweeps.common.errors import UserError
from sweeps.config import cli
from sweeps.execution.driver.gpu_sharing import ALONE, Sharing
from sweeps.execution.run_context import RunContext
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome
from sweeps.training.report import Report
from sweeps.trial.messages import Message, OutOfMemory
from tests.conftest import ROOT, propose
from tests.support.contexts import context_of, said
from tests.support.heads import OPEN, head
from tests.support.nodes import cluster_of
from tests.sweeps.ray_cluster.test_gpus import FAKE

CARD_BYTES = 8e9


def context(record: Record, first: int = 1, given: Sequence[str] = ()) -> RunContext:
    config = cli.parse(["--trials-per-gpu", "auto", "--num-trials", "9", *given])
    return context_of(record.folder, record, config, cluster_of((9, first), card_bytes=CARD_BYTES))


class Training:
    """The processes of a sweep, each with a trial."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.asked: list[int] = []

    def training(self) -> list[Any]:
        return [SimpleNamespace(trial=trial(number)) for number in self.numbers]

    def ask_to_leave(self, asked: Iterable[Any]) -> None:
        self.asked = [process.trial.config["number"] for process in asked]


def sharing(record: Record, first: int = 1, given: Sequence[str] = ()) -> Sharing:
    processes: Any = Training()
    return Sharing(context(record, first, given), processes)


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return Record.create(tmp_path, "s", "max", {"metric": "m"})


def report(shares: Sharing, number: int, takes_gb: float) -> None:
    """A trial reports an epoch."""
    report = Report(1, 0.5, {}, 1.0, {"gpu_memory_gb": takes_gb})
    shares.on_trial_result(0, [], trial(number), Message(report=report).to_result())


def asked_to_leave(shares: Sharing, *numbers: int) -> list[int]:
    """Those of the trials in training that are asked to leave."""
    training: Any = shares._processes
    training.numbers = numbers
    shares.on_step_end(0, [])
    asked: list[int] = training.asked
    return asked


def trial(number: int, **result: Any) -> Any:
    return SimpleNamespace(config={"number": number}, last_result=result)


def gpus(shares: Sharing, number: int) -> float:
    found = shares.place({"number": number}).bundles[0]["GPU"]
    return round(1 / found, 6)


def test_the_first_trials_have_a_gpu_each_and_the_others_what_those_took(record: Record) -> None:
    shares = sharing(record, first=2)
    assert gpus(shares, 0) == gpus(shares, 1) == 1
    report(shares, 0, 1.0)
    assert shares.trials_per_gpu == 1, "one of two has been measured"
    report(shares, 1, 0.5)
    assert shares.trials_per_gpu == 4  # 1.2 x 1 GB + 0.5 GB = 1.7 GB each
    assert gpus(shares, 2) == 4
    report(shares, 2, 1.5)
    assert gpus(shares, 3) == 3, "what is measured later counts, too"
    assert said(shares._context) == [
        "trials took up to 1 GB of the 8 GB free on a GPU: 4 trials on each from now on",
        "trials took up to 1.5 GB of the 8 GB free on a GPU: 3 trials on each from now on",
    ]


def test_memory_that_is_declared_is_kept_for_each(record: Record) -> None:
    shares = sharing(record, given=["--gpu-memory-gb-per-trial", "3"])
    report(shares, 0, 0.5)
    assert shares.trials_per_gpu == 2


def test_a_trial_that_needs_all_of_a_gpu_keeps_it(record: Record) -> None:
    shares = sharing(record)
    gpus(shares, 0)
    report(shares, 0, 7.5)
    assert shares.trials_per_gpu == 1
    assert not asked_to_leave(shares, 0)


def test_one_that_has_a_gpu_for_itself_makes_room_and_then_stays(record: Record) -> None:
    shares = sharing(record)
    gpus(shares, 0)
    assert not asked_to_leave(shares, 0), "it has not been measured"
    report(shares, 0, 1.0)
    assert asked_to_leave(shares, 0) == [0]
    assert gpus(shares, 0) == 4
    assert not asked_to_leave(shares, 0)
    report(shares, 1, 0.5)
    report(shares, 2, 1.5)
    assert shares.trials_per_gpu == 3
    assert not asked_to_leave(shares, 0), "from one share to another it does not move"


def test_a_sweep_that_stops_moves_none(record: Record) -> None:
    shares = sharing(record)
    gpus(shares, 0)
    report(shares, 0, 1.0)
    shares._context.end.stop(Outcome.INTERRUPTED)
    assert not asked_to_leave(shares, 0)


@pytest.mark.parametrize(
    ("took_gb", "fit"),
    [
        ([6.0, 1.0], 4),  # 1 + 1/4 GPUs, and not 2
        ([6.0, 6.0, 1.0], 4),
        ([1.0, 1.0, 1.0, 1.5], 3),  # 4/3 GPUs, and not 3/4 + 1
        ([1.0] * 11 + [1.5], 4),  # 11/4 + 1 GPUs, and not 12/3
        ([2.5, 2.4, 0.5], 2),  # 3/2 GPUs, and not 1/7 + 2
    ],
)
def test_the_share_is_the_one_with_which_all_take_the_fewest_gpus(
    took_gb: Sequence[float], fit: int, record: Record
) -> None:
    shares = sharing(record)
    for number, takes_gb in enumerate(took_gb):
        report(shares, number, takes_gb)
    assert shares.trials_per_gpu == fit


def test_a_first_trial_that_is_large_has_a_gpu_and_the_others_share(record: Record) -> None:
    shares = sharing(record)
    gpus(shares, 0)
    report(shares, 0, 6.0)
    assert gpus(shares, 1) == 1
    report(shares, 1, 1.0)
    assert asked_to_leave(shares, 0, 1) == [1]
    assert gpus(shares, 0) == 1
    assert gpus(shares, 1) == gpus(shares, 2) == 4
    assert said(shares._context) == [
        "trials took up to 1 GB of the 8 GB free on a GPU: 4 trials on each from now on, larger ones alone"
    ]


def test_one_that_outgrows_its_share_moves_to_a_gpu_of_its_own(record: Record) -> None:
    shares = sharing(record)
    report(shares, 0, 1.0)
    assert gpus(shares, 1) == 4
    report(shares, 1, 6.0)
    assert asked_to_leave(shares, 1) == [1]
    assert gpus(shares, 1) == 1
    assert not asked_to_leave(shares, 1)


def test_one_that_runs_out_of_memory_in_a_share_is_requeued_alone_and_only_once(record: Record) -> None:
    propose(record, {"width": 1})
    shares = sharing(record)
    assert gpus(shares, 0) == 1
    out = trial(0, **Message(end=OutOfMemory(reason="no", traceback="")).to_result())
    assert not shares.is_to_requeue(out), "it had a GPU for itself"
    report(shares, 1, 1.0)
    assert gpus(shares, 0) == 4
    assert not shares.is_to_requeue(trial(0, done=True, status="failed")), "it failed for another reason"
    assert shares.is_to_requeue(out)
    assert gpus(shares, 0) == 1
    report(shares, 0, 1.0)
    assert not asked_to_leave(shares, 0), "it does not make room, whatever it takes"
    assert not shares.is_to_requeue(out)
    assert record.trials[0].notices == [ALONE]


def test_a_sweep_that_goes_on_knows_what_was_measured_and_who_is_to_be_alone(record: Record) -> None:
    for number, takes_gb in enumerate((1.0, 6.0)):
        propose(record, {"width": number})
        record.report(number, 1, 0.5, {}, 1.0, {"gpu_memory_gb": takes_gb})
    record.notice(1, ALONE)
    shares = sharing(record, first=1)
    assert gpus(shares, 0) == 4
    assert gpus(shares, 1) == 1


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ("--trials-per-gpu aut", "must be a whole number or one of auto. Did you mean 'auto'"),
        ("--trials-per-gpu 0", "--trials-per-gpu 0: must be at least 1"),
        ("--trials-per-gpu auto --gpus-per-trial 1", "--trials-per-gpu auto: .* give one of them"),
        (
            "--trials-per-gpu auto --workers-per-trial 2",
            "--trials-per-gpu auto can't be combined with --workers-per-trial 2: each worker needs its own",
        ),
    ],
)
def test_what_does_not_fit_is_refused(given: str, fault: str) -> None:
    with pytest.raises(UserError, match=fault):
        cli.parse(given.split())


def swept(folder: Path, searcher: str, scheduler: str, large: float) -> str:
    """What a sweep of six trials prints, on one GPU of 8 GB; that of the slope `large` takes 6 GB of it."""
    (folder / "gpus").write_text("Card of a test, 570.86, 7630\n")
    settings = {
        **OPEN,
        "GPUS": str(folder / "gpus"),
        "PYTHONPATH": f"{ROOT / 'tests' / 'faulty' / 'card'}:{FAKE}:{ROOT}",
        "TOY_ATTEMPTS": str(folder),
    }
    words = (
        *(
            "--trials-per-gpu",
            "auto",
            "--no-baseline",
            "--trainable",
            "tests.faulty.large",
            "--precision",
            "32",
        ),
        *("--search-space", "tests.faulty.large_space", "--params", f"large_slope={large}", "epoch_s=0.3"),
        *("--searcher", searcher, "--scheduler", scheduler),
        *("--max-epochs", "9", "--num-trials", "6", "--min-free-gb", "0", "--no-preflight"),
        *("--name", "s", "--results-dir", str(folder)),
    )
    with head(settings, offers=("--num-cpus=4", "--num-gpus=1")) as started:
        done = subprocess.run(
            [sys.executable, "-m", "sweeps.run", "--address", started.address, *words],
            cwd=ROOT,
            env={**os.environ, **OPEN},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=400,
        )
    assert done.returncode == 0, done.stdout
    return done.stdout


def shares_of(folder: Path) -> dict[float, list[float]]:
    """By slope, epoch by epoch, the GPU that each trial had."""
    shares: defaultdict[float, list[float]] = defaultdict(list)
    for line in (folder / "shares").read_text().splitlines():
        slope, share = map(float, line.split())
        shares[slope].append(share)
    return shares


@pytest.mark.long
@pytest.mark.parametrize("scheduler", ["none", "bohb"])
def test_a_sweep_shares_its_gpu(scheduler: str, tmp_path: Path) -> None:
    """The first trial has it alone, then makes room; one of the others takes 6 GB."""
    done = swept(tmp_path, {"none": "grid", "bohb": "bohb"}[scheduler], scheduler, large=0.3)
    assert "trials took up to 1 GB of the 8 GB free on a GPU: 4 trials on each from now on" in done
    record = Record.read(tmp_path / "s")
    assert len(record.trials) == 6
    assert {trial.status for trial in record.trials} <= {"finished", "pruned"}
    (large,) = (trial for trial in record.trials if trial.params["slope"] == 0.3)
    assert [trial.number for trial in record.trials if trial.notices] == [large.number]
    assert large.notices == [ALONE]
    shares = shares_of(tmp_path)
    first = record.trials[0].params["slope"]
    for trial in record.trials:
        had = shares[float(trial.params["slope"])]
        if trial is large:
            assert had == [0.25] + [1.0] * len(trial.epochs)
        else:
            assert had == sorted(had, reverse=True)
            assert (1.0 in had) == (trial.params["slope"] == first)
            assert len(had) == len(trial.epochs), "no epoch is trained twice"


@pytest.mark.long
def test_a_first_trial_that_is_large_does_not_take_the_others_their_shares(tmp_path: Path) -> None:
    """Points 0.1 to 0.6, of which the first takes 6 GB of 8."""
    done = swept(tmp_path, "grid", "none", large=0.1)
    assert "trials took up to 1 GB of the 8 GB free on a GPU: 4 trials on each from now on, larger" in done
    shares = shares_of(tmp_path)
    assert set(shares[0.1]) == {1.0}
    assert shares[0.2][0] == 1.0, "it was measured"
    assert all(set(shares[slope]) == {0.25} for slope in (0.3, 0.4, 0.5, 0.6))
    assert all(len(had) == 9 for had in shares.values()), "no epoch is trained twice"
