"""What trials took: epochs, hours of a GPU or a CPU, and how much of it was used."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest

from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.figures import costs
from sweeps.analysis.sweep import Sweep
from tests.conftest import propose
from tests.support.kinds import add, begun, drawn


def test_what_pruning_saved_is_what_was_left_to_the_end(sweeps: dict[str, Sweep]) -> None:
    took = costs.spent(sweeps["pruned"].record)
    assert (took.epochs, took.saved_epochs) == (20 * 1 + 6 * 3 + 4 * 9, 20 * 8 + 6 * 6)
    assert math.isclose(took.saved_hours, (20 * 8 + 6 * 6) / 3600)
    assert math.isclose(took.parts["data wait"], 0.1 * took.seconds)
    assert math.isclose(sum(took.parts.values()), took.seconds)


def test_the_start_of_a_program_is_in_no_epoch_that_pruning_saved(tmp_path: Path) -> None:
    record = begun(tmp_path)
    propose(record, drawn(0))
    for epoch, seconds in enumerate((30.0, 1.0, 40.0, 1.0), start=1):
        record.place(0, {"pc": "a", "pid": epoch // 3, "gpu": ""})
        record.report(0, epoch, 0.5, {}, seconds)
    record.end(0, "pruned")
    took = costs.spent(analysis_sweep.load(tmp_path).record)
    assert took.saved_epochs == 5
    assert took.saved_hours * 3600 == pytest.approx(5 * 1.0)


@pytest.mark.parametrize(
    ("settings", "gpus"),
    [
        ({}, 1.0),
        ({"workers_per_trial": 2}, 2.0),
        ({"gpus_per_trial": 2, "workers_per_trial": 3}, 6.0),
        ({"gpus_per_trial": 0.5}, 1.0),
    ],
)
def test_gpu_hours_count_the_gpus_of_all_workers(
    settings: dict[str, float], gpus: float, tmp_path: Path
) -> None:
    record = begun(tmp_path, identity={"settings": {"cpus_per_trial": 8, **settings}})
    propose(record, drawn(0))
    record.report(0, 1, 0.5, {}, 9.0)
    assert costs.spent(analysis_sweep.load(tmp_path).record).devices == "CPU"
    record.place(0, {"pc": "a", "pid": 1, "gpu": "0"})
    took = costs.spent(analysis_sweep.load(tmp_path).record)
    assert (took.devices, round(took.device_hours * 3600, 3)) == ("GPU", 9 * gpus)


def test_cpu_hours_count_the_cpus_of_all_workers(tmp_path: Path) -> None:
    settings = {"cpus_per_trial": 3, "workers_per_trial": 2}
    add(begun(tmp_path, identity={"settings": settings}), drawn(0), 9, "unfinished")
    took = costs.spent(analysis_sweep.load(tmp_path).record)
    assert math.isclose(took.device_hours, 6 * took.seconds / 3600)


def test_a_gpu_that_trials_share_counts_once(tmp_path: Path) -> None:
    """Two trials on the same GPU at the same time, and one alone on another."""
    record = begun(tmp_path)
    for number, gpu in enumerate("001"):
        propose(record, drawn(number))
        record.place(number, {"pc": "a", "pid": number, "gpu": gpu})
        record.report(number, 1, 0.5, {}, 9.0)
    sweep = analysis_sweep.load(tmp_path)
    rows = [list(trial.epochs.values()) for trial in sweep.record.trials]
    held_s = sum(
        max(row.time for row in of_gpu) - min(row.time - row.seconds for row in of_gpu)
        for of_gpu in (rows[0] + rows[1], rows[2])
    )
    assert held_s < costs.spent(sweep.record).seconds
    assert math.isclose(costs.spent(sweep.record).device_hours, held_s / 3600, rel_tol=1e-3)


def lanes(folder: Path) -> dict[str, list[str]]:
    """Process to the trials of its bars in the timeline."""
    found: dict[str, list[str]] = {}
    for trace in costs.timeline(analysis_sweep.load(folder)).data:
        for lane, trial in zip(trace.y, trace.text, strict=True):
            found.setdefault(lane, []).append(trial)
    return {lane: sorted(trials) for lane, trials in found.items()}


def test_an_epoch_is_drawn_in_the_process_and_on_the_pc_that_trained_it(tmp_path: Path) -> None:
    record = begun(tmp_path)
    add(record, drawn(0), 2, "unfinished")
    add(record, drawn(1), 2)
    record.place(0, {"pc": "elsewhere", "pid": 7, "gpu": ""})
    record.report(0, 3, 0.5, {"acc": 0.5}, 1.0, {"cpu_busy_pct": 50.0})
    assert lanes(tmp_path) == {
        "pc0, process 100": ["0"],
        "pc1, process 101": ["1"],
        "elsewhere, process 7": ["0"],
    }
    used = costs.utilization(analysis_sweep.load(tmp_path))
    assert {trace.name for trace in used.data} == {"pc0", "pc1", "elsewhere"}


def test_a_process_that_trains_another_trial_while_one_waits_has_three_bars(tmp_path: Path) -> None:
    record = begun(tmp_path)
    for number in (0, 1):
        propose(record, drawn(number))
        record.place(number, {"pc": "a", "pid": 7, "gpu": ""})
    for number, epoch in ((0, 1), (0, 2), (1, 1), (0, 3)):
        record.report(number, epoch, 0.5, {"acc": 0.5}, 1e-5)
    assert lanes(tmp_path) == {"a, process 7": ["0", "0", "1"]}


def test_an_epoch_that_was_left_by_an_earlier_run_begins_with_the_run_that_ended_it(tmp_path: Path) -> None:
    record = begun(tmp_path)
    add(record, drawn(0), 1, "unfinished")
    resumed = record.trials[0].epochs[1].time + 1e-5
    record.note("runs", [{"started": 1.0}, {"started": resumed}])
    record.place(0, {"pc": "a", "pid": 7, "gpu": ""})
    record.report(0, 2, 0.5, {"acc": 0.5}, 600.0)
    (trace,) = costs.timeline(analysis_sweep.load(tmp_path)).data
    assert dict(zip(trace.y, trace.base, strict=True))["a, process 7"].timestamp() == pytest.approx(resumed)


def test_figures_have_the_time_of_this_pc_as_the_sentences_of_a_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = begun(tmp_path)
    add(record, drawn(0), 1)
    ended = record.trials[0].epochs[1].time
    monkeypatch.setenv("TZ", "UTC+5")
    time.tzset()
    try:
        sweep = analysis_sweep.load(tmp_path)
        drawn_at = [costs.timeline(sweep).data[0].base[0], costs.utilization(sweep).data[0].x[-1]]
        hour = time.strftime("%H", time.localtime(ended - 1))
    finally:
        monkeypatch.undo()
        time.tzset()
    begins, last = (f"{moment:%H}" for moment in drawn_at)
    assert begins == hour
    assert last in (hour, f"{(int(hour) + 1) % 24:02}"), "its epoch may end in the next hour"


def test_utilization_adds_up_to_the_seconds_that_were_trained() -> None:
    import numpy as np

    edges = np.linspace(1e9, 1e9 + 60, 13)
    spans = [(1e9 + 1, 1e9 + 11, 1.0), (1e9 + 5, 1e9 + 50, 1.0), (1e9, 1e9 + 60, 2.0)]
    means = costs._filled(spans, edges)
    assert math.isclose(float(means.sum()) * 5, 10 + 45 + 120, rel_tol=1e-6)
    assert math.isclose(float(means[11]), 2.0, rel_tol=1e-6)
