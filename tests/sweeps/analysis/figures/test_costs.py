"""What trials took: epochs, hours of a GPU or a CPU, and how much of it was used."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.figures import costs
from sweeps.analysis.sweep import Sweep
from sweeps.config.sweep_folder import SWEEP_FILE
from tests.support.kinds import add, begun, drawn


def test_what_pruning_saved_is_what_was_left_to_the_end(sweeps: dict[str, Sweep]) -> None:
    took = costs.spent(sweeps["pruned"])
    assert (took.epochs, took.saved_epochs) == (20 * 1 + 6 * 3 + 4 * 9, 20 * 8 + 6 * 6)
    assert math.isclose(took.saved_hours, (20 * 8 + 6 * 6) / 3600)
    assert math.isclose(took.parts["data wait"], 0.1 * took.seconds)
    assert math.isclose(sum(took.parts.values()), took.seconds)


def test_gpu_hours_count_the_share_of_a_gpu_that_a_trial_has(tmp_path: Path) -> None:
    settings = {"gpus_per_trial": 0.5, "cpus_per_trial": 3}
    record = begun(tmp_path, identity={"settings": settings})
    add(record, drawn(0), 9, "unfinished")
    assert math.isclose(costs.spent(analysis_sweep.load(tmp_path)).device_hours, 3 * 9 / 3600)
    record.place(0, {"pc": "a", "pid": 1, "gpu": "0"})
    took = costs.spent(analysis_sweep.load(tmp_path))
    assert (took.devices, round(took.device_hours * 3600, 3)) == ("GPU", 4.5)


@pytest.mark.parametrize(
    ("settings", "gpus"),
    [
        ({"workers_per_trial": 2}, 2.0),
        ({"gpus_per_trial": 2, "workers_per_trial": 3}, 6.0),
        ({"trials_per_gpu": 4}, 0.25),
        ({"trials_per_gpu": 2, "gpus_per_trial": 0.5}, 0.5),
    ],
)
def test_gpu_hours_count_the_gpus_of_all_workers(
    settings: dict[str, float | str], gpus: float, tmp_path: Path
) -> None:
    per_gpu = settings.pop("trials_per_gpu", None)
    record = begun(tmp_path, identity={"settings": {"cpus_per_trial": 8, **settings}})
    (tmp_path / SWEEP_FILE).write_text("{}" if per_gpu is None else f"trials_per_gpu: {per_gpu}")
    add(record, drawn(0), 9, "unfinished")
    record.place(0, {"pc": "a", "pid": 1, "gpu": "0"})
    took = costs.spent(analysis_sweep.load(tmp_path))
    assert math.isclose(took.device_hours, gpus * took.seconds / 3600)


def test_cpu_hours_count_the_cpus_of_all_workers(tmp_path: Path) -> None:
    settings = {"cpus_per_trial": 3, "workers_per_trial": 2}
    add(begun(tmp_path, identity={"settings": settings}), drawn(0), 9, "unfinished")
    took = costs.spent(analysis_sweep.load(tmp_path))
    assert math.isclose(took.device_hours, 6 * took.seconds / 3600)


def test_a_gpu_that_trials_share_by_measurement_counts_once(tmp_path: Path) -> None:
    """Two trials on the same GPU at the same time, and one alone on another."""
    record = begun(tmp_path)
    (tmp_path / SWEEP_FILE).write_text("trials_per_gpu: auto")
    for number, gpu in enumerate("001"):
        add(record, drawn(number), 9, "unfinished")
        record.place(number, {"pc": "a", "pid": number, "gpu": gpu})
    sweep = analysis_sweep.load(tmp_path)
    rows = [list(trial.epochs.values()) for trial in sweep.record.trials]
    held_s = sum(
        max(row.time for row in of_gpu) - min(row.time - row.seconds for row in of_gpu)
        for of_gpu in (rows[0] + rows[1], rows[2])
    )
    assert held_s < costs.spent(sweep).seconds
    assert math.isclose(costs.spent(sweep).device_hours, held_s / 3600, rel_tol=1e-3)


def test_utilization_adds_up_to_the_seconds_that_were_trained() -> None:
    import numpy as np

    edges = np.linspace(1e9, 1e9 + 60, 13)
    spans = [(1e9 + 1, 1e9 + 11, 1.0), (1e9 + 5, 1e9 + 50, 1.0), (1e9, 1e9 + 60, 2.0)]
    means = costs._filled(spans, edges)
    assert math.isclose(float(means.sum()) * 5, 10 + 45 + 120, rel_tol=1e-6)
    assert math.isclose(float(means[11]), 2.0, rel_tol=1e-6)
