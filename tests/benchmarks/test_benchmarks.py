"""The benchmarks' own arithmetic, and that their arms train the same thing; no timings."""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from benchmarks import (
    _epochs,
    _loaders,
    _measure,
    _plain,
    _scale_runs,
    _throughput,
    cluster,
    data_path,
    digits_cnn,
    digits_cnn_long,
    fit_overhead,
    infeasible,
    inner_loop,
    overhead,
    scale,
    sharing,
)
from benchmarks._images import Images
from benchmarks._job import Job
from benchmarks._measure import Goal
from sweeps.training.distributed import strategy as training_strategy
from tests.conftest import ROOT
from tests.test_architecture import HEAVY
from trainables import digits_mlp
from trainables._shared import fashion_mnist
from trainables._shared.channels_last import Conv2d


@pytest.mark.parametrize(
    ("goal", "line"),
    [
        (Goal("overhead_24", 1.428, "<=", 2.0), "overhead_24 1.43 (goal <= 2.0) met"),
        (Goal("overhead_24", 2.004, "<=", 2.0), "overhead_24 2.00 (goal <= 2.0) missed"),
        (Goal("trials_per_s", 40.0, ">=", 40.0), "trials_per_s 40.00 (goal >= 40.0) met"),
        (Goal("trials_per_s", None, ">=", 40.0), "trials_per_s - (goal >= 40.0) not measured"),
    ],
)
def test_a_goal_says_whether_it_is_met(goal: Goal, line: str) -> None:
    assert goal.line() == line


def test_a_median_of_nothing_is_none() -> None:
    assert (_measure.median([]), _measure.median([3.0, 1.0, 2.0])) == (None, 2.0)


def test_every_arm_is_once_the_first() -> None:
    orders = [_measure.in_turn(["b", "c", "d"], repeat) for repeat in range(3)]
    assert sorted(order[0] for order in orders) == ["b", "c", "d"]
    assert all(sorted(order) == ["b", "c", "d"] for order in orders)


def test_the_cpu_time_of_grandchildren_counts_also_when_their_parent_has_gone(tmp_path: Path) -> None:
    burn = "import time\nwhile time.process_time() < 1.5: pass"
    parent = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {burn!r}])"
    wait = "import time; time.sleep(1)\nwhile time.process_time() < 1.5: pass"
    commands = [[sys.executable, "-c", parent], [sys.executable, "-c", wait]]
    _, cpu_s = _measure.run_together(commands, tmp_path, {})
    assert cpu_s > 1.6


def test_ctrl_c_ends_the_processes_that_are_measured(tmp_path: Path) -> None:
    there = tmp_path / "pid"
    sleep = (
        f"import os, pathlib, time; pathlib.Path({str(there)!r}).write_text(str(os.getpid())); time.sleep(99)"
    )
    code = (
        "import pathlib, sys; from benchmarks import _measure\n"
        f"_measure.run_together([[sys.executable, '-c', {sleep!r}]], pathlib.Path({str(tmp_path)!r}), {{}})"
    )
    # As a foreground program: under a shell's `&` SIGINT is ignored, and children inherit that.
    watched = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while not (there.exists() and there.read_text()):
        assert watched.poll() is None
        time.sleep(0.05)
    watched.send_signal(signal.SIGINT)
    assert b"KeyboardInterrupt" in watched.communicate(timeout=60)[1]
    assert not psutil.pid_exists(int(there.read_text()))


def test_processes_are_adopted_only_while_they_are_measured(tmp_path: Path) -> None:
    _measure.run_together([[sys.executable, "-c", ""]], tmp_path, {})
    is_one = ctypes.c_int(1)
    get_child_subreaper = 37
    ctypes.CDLL(None).prctl(get_child_subreaper, ctypes.byref(is_one), 0, 0, 0)
    assert not is_one.value, "or the tests that follow have children that other programs left"


def a_run(arm: str, repeat: int, wall_s: float, epochs: int, trials: int = 24) -> dict[str, Any]:
    return {
        "model": "cnn", "trials": trials, "repeat": repeat, "arm": arm, "wall_s": wall_s, "epochs": epochs,
        "cpu_s": 2 * wall_s, "s_per_epoch": wall_s / epochs, "cpu_s_per_epoch": 2 * wall_s / epochs,
    }  # fmt: skip


def test_arms_are_compared_per_epoch_and_within_a_repeat() -> None:
    runs = [
        a_run("g", 0, 30.0, 100), a_run("f", 0, 10.0, 100),  # 3 times
        a_run("g", 1, 80.0, 200), a_run("f", 1, 20.0, 100),  # 2 times, on a busy machine
        a_run("g", 2, 20.0, 100), a_run("f", 2, 10.0, 100),  # 2 times
    ]  # fmt: skip
    by_name = {goal.name: goal.value for goal in overhead.goals(runs)}
    assert by_name == {
        "overhead_24": pytest.approx(2.0),
        "overhead_96": None,
        "overhead_mlp_96": None,
        "ray_tune_24": None,
        "ray_tune_reuse_24": None,
        "ray_tune_reuse_96": None,
        "default_to_tpe_asha_24": None,
        "default_to_tpe_asha_96": None,
        "default_to_tpe_asha_long_24": None,
        "default_to_tpe_asha_long_96": None,
        "own_ms_of_a_core_per_trial": None,
    }
    floor = overhead.summary(runs)[1]
    assert (floor["arm"], floor["epochs"], floor["s_per_epoch"]) == ("f", 100, pytest.approx(0.1))
    assert "cnn 24  f floor, Lightning" in overhead.describe(overhead.summary(runs))


def test_what_a_sweep_costs_once_is_no_cost_of_a_trial() -> None:
    runs = [
        a_run("a", 0, 20.0, 100), a_run("f", 0, 12.0, 100),
        a_run("a", 0, 45.2, 400, trials=96), a_run("f", 0, 30.0, 400, trials=96),
    ]  # fmt: skip
    assert overhead.own_ms_per_trial(runs) == pytest.approx(200.0)
    assert overhead.own_ms_per_trial(runs[:2]) is None


def a_job(**changes: Any) -> Job:
    known: dict[str, Any] = {
        "model": "mlp", "trials": [{}] * 5, "epochs": [1, 20, 3, 9, 8], "seed": 0, "max_epochs": 20,
        "grace_epochs": 1, "reduction_factor": 3, "workers": 2, "folder": "",
    }  # fmt: skip
    return Job(**{**known, **changes})


def test_the_floors_share_out_every_trial_once_and_evenly() -> None:
    job = a_job()
    shares = [job.share(worker) for worker in range(job.workers)]
    assert sorted(number for share in shares for number in share) == [0, 1, 2, 3, 4]
    assert [sum(job.epochs[number] for number in share) for share in shares] == [21, 20]


def test_a_job_travels_in_a_file_and_is_told_of_every_epoch(tmp_path: Path) -> None:
    job = a_job(folder=str(tmp_path))
    job.write()
    assert Job.read(str(tmp_path)) == job
    job.tell({0: 1, 2: 3}, worker=0)
    job.tell({1: 20}, worker=1)
    assert job.told() == 24


def test_rates_leave_the_warming_up_out() -> None:
    ends = [0.0, *(10.0 + number for number in range(20))]  # the first alone, long before the others
    samples = [_scale_runs.Sample(*each) for each in ((0, 100.0, 0), (11, 101.0, 20.0), (29, 102.8, 20.9))]
    found = _scale_runs.figures(ends, samples, whole_s=42.0)
    assert found["trials_per_s"] == pytest.approx(1.0)
    assert found["trials_per_s_of_last_tenth"] == pytest.approx(1.0)
    assert found["whole_trials_per_s"] == 0.5
    assert found["kb_per_trial"] == pytest.approx(100.0)
    assert found["cpu_ms_per_trial"] == pytest.approx(50.0)
    bare = _scale_runs.rates([end / 2 for end in ends])
    compared = _scale_runs.beside(found, bare, floor={"cpu_ms_per_fit": 14.0})
    assert compared["to_bare"] == pytest.approx(0.5)
    assert compared["bare_of_last_tenth"] == pytest.approx(2.0)
    assert compared["own_cpu_ms"] == pytest.approx(36.0)


def test_the_worst_size_counts_and_flat_is_over_all_sizes() -> None:
    of_100 = {"trials": 100, "kb_per_trial": 21.0, "tables_percent": 3.0, "own_cpu_ms": 90.0}
    of_10_000 = {"trials": 10_000, "kb_per_trial": 9.0, "tables_percent": 0.4, "own_cpu_ms": 40.0}
    rates = [
        {**of_100, "scheduler": "asha", "trials_per_s": 50.0, "to_bare": 0.9},
        {**of_100, "scheduler": "halving", "trials_per_s": 40.0, "to_bare": 0.72},
        {**of_10_000, "scheduler": "asha", "trials_per_s": 39.0, "to_bare": 0.85},
        {**of_10_000, "scheduler": "halving", "trials_per_s": 36.0, "to_bare": 0.7},
    ]
    lines = [goal.line() for goal in scale.goals(rates, [{"trials": 10_000, "tables_percent": 0.5}])]
    assert lines == [
        "to_bare_tune_asha 0.85 (goal >= 0.8) met",
        "flat_percent_asha 22.00 (goal <= 20.0) missed",
        "to_bare_tune_halving 0.70 (goal >= 0.8) missed",
        "flat_percent_halving 10.00 (goal <= 20.0) met",
        "own_cpu_ms 40.00 (goal <= 60.0) met",
        "kb_per_trial 9.00 (goal <= 20.0) met",
        "tables_percent 0.50 (goal <= 1.0) met",
    ]


def test_the_floor_trains_the_same_networks_on_the_same_rows() -> None:
    mlp = digits_mlp.build_model(digits_mlp.Params(hidden=16)).net
    assert shapes(_plain.net("mlp", {"hidden": 16})) == shapes(mlp)
    cnn = digits_cnn.build_model(digits_cnn.Params()).net
    assert shapes(_plain.net("cnn", {})) == shapes(cnn)
    assert sum(parameter.numel() for parameter in cnn.parameters()) == 56_064
    train, val = _plain.rows("mlp")
    theirs = digits_mlp.build_data(digits_mlp.Params(batch_size=2_000))
    assert next(iter(theirs.val_dataloader()))[0].equal(val[0])
    assert sum(len(labels) for _, labels in theirs.train_dataloader()) == len(train[1])
    assert len(digits_cnn.build_data(digits_cnn.Params()).train_dataloader()) == 23
    long = digits_cnn_long.build_data(digits_cnn_long.Params()).train_dataloader()
    assert sum(len(labels) for _, labels in long) == len(_plain.rows("cnn_long")[0][1]) == 10 * 1_437
    assert shapes(_plain.net("cnn_long", {})) == shapes(cnn)


def shapes(network: Any) -> list[Any]:
    return [tuple(tensor.shape) for tensor in network.state_dict().values()]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where a benchmark then writes to, instead of the committed results."""
    monkeypatch.setenv(_measure.RESULTS, str(tmp_path / "results"))
    threads = torch.get_num_threads()
    monkeypatch.setattr(_measure, "busy_cores", lambda seconds=1.0: 0.0)
    yield tmp_path / "results"
    torch.set_num_threads(threads)


def test_all_ways_to_load_hand_out_the_same_rows(tmp_path: Path) -> None:
    images = Images(tmp_path, side=8, rows=20, files=20)
    expected = sorted(image.tobytes() for image in images.array)
    assert len(set(expected)) > 10
    for name, make in _loaders.loaders(images, batch_size=6, workers=0).items():
        if (needed := data_path.NEEDS.get(name)) and find_spec(needed) is None:
            continue
        found: list[bytes] = []
        for batch in make():
            rows = (
                batch["image"] if isinstance(batch, dict) else batch[0] if isinstance(batch, list) else batch
            )
            found += [row.numpy().tobytes() for row in rows]
        assert sorted(found) == expected, name


def test_the_data_path_is_measured(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = "--sides 8 --mib 1 --files 20 --batch-size 64 --loader-workers 0 --seconds 0.01 --repeats 1"
    arms = ["mmap", "mmap, new memory", "in order", "parquet", "tensors"]
    assert data_path.main([*flags.split(), "--arms", *arms]) == 0
    content = json.loads((results / "data_path.json").read_text())
    assert {row["arm"] for row in content["medians"]} == set(arms)
    assert all(row["rows_per_s"] > 0 for row in content["medians"])
    assert "to_litdata_0KB - (goal >= 1.0) not measured" in capsys.readouterr().out


def test_the_ceiling_copies_into_one_buffer_and_the_other_arm_into_new_memory(tmp_path: Path) -> None:
    arms = _loaders.loaders(Images(tmp_path, side=8, rows=20, files=1), batch_size=5, workers=0)
    places = {
        name: len({batch.data_ptr() for batch in list(arms[name]())}) for name in ("mmap", "mmap, new memory")
    }
    assert places == {"mmap": 1, "mmap, new memory": 4}
    rates = {"mmap": 100.0, "mmap, new memory": 10.0, "in order": 50.0}
    medians = [
        {"side": 8, "arm": arm, "loader_workers": 0, "rows_per_s": rate} for arm, rate in rates.items()
    ]
    assert data_path.goals(medians, [8])[-1].value == 0.5


def test_an_arm_without_its_package_is_skipped_with_the_reason(
    results: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_path, "find_spec", lambda name: None)
    flags = (
        "--sides 8 --mib 1 --batch-size 64 --loader-workers 0 --seconds 0.01 --repeats 1 --arms litdata mmap"
    )
    assert data_path.main(flags.split()) == 0
    assert "litdata: not measured: no module litdata; pip install" in capsys.readouterr().out


def test_fit_and_the_plain_loop_train_the_same() -> None:
    plain, fit = (by("digits_mlp", 3, _epochs.Clock()) for by in (_epochs.by_plain_loop, _epochs.by_fit))
    assert fit == pytest.approx(plain, rel=1e-5)
    logged = _epochs.by_fit("digits_mlp", 3, _epochs.Clock(), model=fit_overhead.log_each_step)
    assert logged == pytest.approx(plain, rel=1e-5)


def test_what_fit_costs_is_measured(results: Path) -> None:
    assert fit_overhead.main(["--models", "digits_mlp", "--epochs", "3", "--repeats", "1"]) == 0
    content = json.loads((results / "fit_overhead.json").read_text())
    assert [row["arm"] for row in content["medians"]] == list(fit_overhead.ARMS)
    assert {run["steps"] for run in content["runs"]} == {19}


def test_the_plain_loop_takes_images_as_they_are_stored() -> None:
    try:
        fashion_mnist.find()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    metrics = _epochs.by_plain_loop("fashion_cnn", 1, _epochs.Clock())
    assert 0 < metrics["train_loss"] < 3


def test_a_clock_leaves_no_time_out() -> None:
    clock = _epochs.Clock()
    assert clock.epochs() == []
    for _ in range(4):
        clock.mark()
    assert len(clock.epochs()) == 3


def test_switches_of_the_inner_loop_are_measured(results: Path) -> None:
    arms = ["optimizer plain", "bf16-mixed", "16-mixed"]
    asked = ["--models", "digits_mlp", "--epochs", "2", "--repeats", "1", "--arms", *arms]
    assert inner_loop.main(asked) == 0
    content = json.loads((results / "inner_loop.json").read_text())
    found = {row["arm"] for row in content["medians"]}
    if torch.cuda.is_available():
        assert found == {"as shipped", *arms}
    else:
        assert found == {"as shipped", "optimizer plain", "bf16-mixed"}
        assert content["skipped"] == {"16-mixed": "no CUDA here"}


@pytest.mark.parametrize("kind", ["plain", "foreach", "fused"])
def test_a_switch_of_the_optimizer_reaches_it(kind: str) -> None:
    from trainables import fashion_vit

    model = fashion_vit.build_model(fashion_vit.Params())
    inner_loop.use_optimizer(kind, model)
    for group in model.configure_optimizers()["optimizer"].param_groups:
        assert (group["fused"], group["foreach"]) == (kind == "fused", kind == "foreach")


@pytest.mark.parametrize(("arm", "mode"), [("compiled", None), ("compiled, CUDA graphs", "reduce-overhead")])
def test_what_is_compiled_is_what_a_flag_compiles(
    monkeypatch: pytest.MonkeyPatch, arm: str, mode: str | None
) -> None:
    compiled: list[Any] = []
    monkeypatch.setattr(training_strategy, "compile_model", lambda *given: compiled.append(given))
    inner_loop.SWITCHES[arm].settings["model"]("a model")
    assert compiled == [("a model", mode)]


@pytest.mark.parametrize("name", ["contiguous_format", "channels_last"])
def test_a_switch_of_the_layout_reaches_the_convolutions(name: str) -> None:
    arm = {"contiguous_format": "channels first", "channels_last": "channels last"}[name]
    net = torch.nn.Sequential(Conv2d(1, 2, 3), torch.nn.ReLU())
    inner_loop.SWITCHES[arm].settings["model"](net)
    assert net[0].memory_format is getattr(torch, name)


def test_what_is_on_by_default_is_among_the_switches() -> None:
    for model, without in inner_loop.DEFAULTS:
        assert model in inner_loop.SWITCHES[without].models


def test_a_cluster_is_timed_process_by_process_once_all_are_warm() -> None:
    """Two slots, a trial every 10 s in each, of which one starts late; together or not."""
    early, late = [100.0, 110.0, 120.0, 130.0, 140.0], [117.0, 127.0, 137.0, 147.0]
    ended = [*(("early", end) for end in early), *(("late", end) for end in late)]
    assert _throughput.per_hour(ended, slots=2) == pytest.approx(720)
    waves = [
        (process, end) for process in range(8) for end in (10.0 + process / 100, 20.0, 30.0 - process / 100)
    ]
    assert _throughput.per_hour(waves, slots=8) == pytest.approx(8 * 360, rel=0.01)
    with pytest.raises(RuntimeError, match=r"not all of 3 processes trained on .* give more --waves"):
        _throughput.per_hour(ended, slots=3)


def test_a_cluster_that_would_fill_the_memory_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cluster.main(["--sleeping-pcs", "1", "4", "--slots", "100000"])
    assert "--slots 100000 on 4 PCs take 188000 GB of memory, " in capsys.readouterr().err


def test_a_cluster_is_compared_with_one_pc_of_the_same_repeat() -> None:
    rates = {(1, 0): 100.0, (1, 1): 50.0, (1, 2): 80.0, (4, 0): 360.0, (4, 1): 190.0, (4, 2): 320.0}
    runs = [
        {"arm": "sleeping", "pcs": pcs, "slots": 16 * pcs, "repeat": repeat, "trials_per_hour": rate,
         "percent_of_ideal": 90.0}
        for (pcs, repeat), rate in rates.items()
    ]  # fmt: skip
    one, four = cluster.summary(runs)
    assert (one["efficiency_percent"], four["efficiency_percent"]) == (100.0, 95.0)
    assert four["trials_per_hour"] == 320.0
    assert cluster.goals([one, four])[0].line() == "sleeping_efficiency_percent 95.00 (goal >= 90.0) met"
    assert cluster.goals([])[0].value is None
    assert "95" in cluster.describe([one, four]).splitlines()[-1]


@pytest.mark.parametrize(
    "name",
    [
        "overhead",
        "scale",
        "data_path",
        "fit_overhead",
        "inner_loop",
        "search",
        "objectives",
        "cluster",
        "gpu",
        "time_left",
    ],
)
def test_a_benchmark_tells_its_flags_at_once(name: str) -> None:
    code = (
        f"import sys\nfrom benchmarks.{name} import main\n"
        f"try:\n    main(['--help'])\nfinally:\n    print('loaded:', {{*{HEAVY!r}}} & {{*sys.modules}})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert f"python -m benchmarks.{name}" in done.stdout
    assert done.stdout.splitlines()[-1] == "loaded: set()"


def test_of_proposals_that_do_not_fit_those_after_the_first_trials_count() -> None:
    runs = [
        infeasible.Run(arm, "width", 0, first=0.9, later=later, best=1.0, seconds=1.0)
        for arm, later in (
            ("random", 0.4),
            ("random", 0.6),
            ("gp", 0.05),
            ("tpe", 0.2),
            ("gp, as failed", 0.9),
        )
    ]
    assert [goal.line() for goal in infeasible.goals(runs)] == [
        "infeasible_gp_to_chance 0.10 (goal <= 0.2) met",
        "infeasible_tpe_to_chance 0.40 (goal <= 0.2) missed",
        "infeasible_bohb_to_chance - (goal <= 0.2) not measured",
    ]


@pytest.mark.parametrize("as_failed", [False, True])
def test_about_half_of_the_proposals_of_a_search_by_chance_do_not_fit(as_failed: bool) -> None:
    shares = []
    for problem in infeasible.problems():
        found = infeasible.run("random", problem, 0, 60, as_failed)
        shares.append((found.first + found.later) / 2)
    assert len(shares) == len(infeasible.PROBLEMS)
    assert all(0.3 < share < 0.7 for share in shares)


def test_a_window_is_off_by_what_a_sweep_received_beside_its_due() -> None:
    kinds = [sharing.Kind("a", 1.0), sharing.Kind("b", 1.0, share=3.0)]
    seconds = [float(at) for at in range(31)]
    series = {"a": [(at, at) for at in seconds], "b": [(at, at) for at in seconds]}
    first, second = sharing.off_percent(kinds, series, skip_s=10, window_s=10)
    assert (first["windows"], first["due_percent"], first["received_s"]) == (11, 25.0, 30.0)
    assert first["most_off_percent"] == pytest.approx(100.0)
    assert second["least_off_percent"] == pytest.approx(-100 / 3)
    assert sharing.received_percent(series, 4, skip_s=10, window_s=10) == pytest.approx(50), "half is idle"
