"""The speed of a trainable in one setup: `python -m sweeps.training.ladder.measure FILE`.

Only training steps are timed, from the arrival of a batch to that of the next: no validation, and not the
first steps, in which memory is allocated and code compiled.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil

from sweeps.common import atomic_io, plugins, project
from sweeps.common.cli.command import TRAINABLE
from sweeps.common.param_types import build_params
from sweeps.common.yaml_values import ParamValue
from sweeps.training import subprocess_run
from sweeps.training.config import FitConfig
from sweeps.training.data import build, dataset
from sweeps.training.distributed import launch
from sweeps.training.fit_loop import Fit
from sweeps.training.ladder.rungs import Setup
from sweeps.training.ladder.throughput import Timed

WARM_UP_STEPS = 3
BLOCKS = 3
"""Parts of the time, each with its own rate; the median of the rates is the speed."""
LOADER_S = 3.0
"""Seconds in which the loader is measured alone."""
TIMEOUT_S = 3600
"""Enough for some steps on the slowest raw data; a worker that waits for another one may wait for ever."""
BUSY_S = 1.0
"""Seconds in which the load of other processes is measured."""
SPEED_FILE = "speed.json"


@dataclass(frozen=True, kw_only=True)
class Speed:
    """The measured speed of a setup, of all its workers together."""

    samples_s: float
    """Rows trained in a second; the median of `blocks`."""
    blocks: list[float]
    epoch_rows: int
    batch_rows: int
    data_wait_pct: float
    """Share of the steps' time in which they waited for a batch."""
    gpu_util_pct: float | None
    """Utilization by NVML; None on a CPU, or without NVML."""
    cores_busy_pct: float
    """Share of all the PC's cores."""
    loader_rows_s: float | None
    """Rows that the loader of one worker reads in a second when nothing else runs."""


@dataclass(frozen=True)
class Result:
    """The result of a rung."""

    rung: str
    speed: Speed | None
    times: float | None
    """Speed-up over the first rung."""
    note: str
    """The change of the rung, or why it was skipped or failed."""
    is_kept: bool
    setup: Setup | None = None
    busy_cores: float = 0.0
    """Cores that other programs kept busy before it."""


def measure(
    trainable: str, params: Mapping[str, ParamValue], setup: Setup, seconds: float
) -> tuple[Speed | None, str]:
    """Train for so many seconds in a process of its own: the speed, or None and the reason."""
    with tempfile.TemporaryDirectory(prefix="sweeps-speed-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "setup.json"
        content = {
            "trainable": trainable,
            "project": str(project.folder()),
            "params": dict(params),
            "setup": dataclasses.asdict(setup),
            "seconds": seconds,
        }
        file.write_text(json.dumps(content))
        command = [sys.executable, "-m", "sweeps.training.ladder.measure", str(file)]
        failure = subprocess_run.failure_of(subprocess_run.run(command, TIMEOUT_S), Path(folder))
        if not failure:
            return Speed(**json.loads(file.with_name(SPEED_FILE).read_text())), ""
    return None, in_a_line(failure)


def busy_cores() -> float:
    """Number of cores that other programs keep busy, measured for `BUSY_S`."""
    return psutil.cpu_percent(BUSY_S) / 100 * (psutil.cpu_count() or 1)


def in_a_line(failure: str) -> str:
    """The line of a traceback that names the error (its message may have more lines), or the last line."""
    lines = failure.splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    below = lines[frames[-1] + 1 :] if frames else []
    return next((line for line in below if not line.startswith("  ")), lines[-1])


def main(file: Path) -> None:
    """Measure the setup of a file; write the speed beside it."""
    given = json.loads(file.read_text())
    params = given["params"]
    setup = Setup(**{**given["setup"], "fit": FitConfig(**given["setup"]["fit"])})
    project.use(Path(given["project"]))
    module: Any = plugins.find(TRAINABLE, given["trainable"])
    prepared = None if setup.is_raw else build.of_trial(given["trainable"], module, params)
    if setup.loader_workers is not None and not setup.is_raw:
        params = {**params, "loader_workers": setup.loader_workers}
    timed = Timed(given["seconds"], WARM_UP_STEPS, BLOCKS, is_compiled=setup.fit.compile)
    config = dataclasses.replace(setup.fit, max_epochs=10**6, metric=module.METRIC, mode=module.MODE)
    trainable = _with_data_of(setup, module, prepared)
    Fit(trainable, build_params(module.Params, params), config).run(lambda epoch: True, timed)
    if launch.is_first():
        atomic_io.write(file.with_name(SPEED_FILE), json.dumps(_speed(timed, setup.fit.devices)))


def _speed(timed: Timed, devices: int) -> dict[str, Any]:
    rates = [rate * devices for rate in timed.rates]
    speed = Speed(
        samples_s=statistics.median(rates),
        blocks=rates,
        epoch_rows=timed.epoch_rows * devices,
        batch_rows=timed.batch_rows * devices,
        data_wait_pct=timed.data_wait_pct,
        gpu_util_pct=timed.gpu_util_pct,
        cores_busy_pct=timed.cores_busy_pct,
        loader_rows_s=timed.loader_alone(LOADER_S) if devices == 1 else None,
    )
    return dataclasses.asdict(speed)


def _with_data_of(setup: Setup, module: Any, prepared: Path | None) -> Any:
    """The trainable with the data of a setup."""

    def build_data(params: Any) -> Any:
        if setup.is_raw:
            data = module.build_raw_data(params, setup.loader_workers or 0)
        else:
            data = dataset.build_data(module, params, prepared)
        if setup.batch_rows is not None:
            data.batch_size = setup.batch_rows
        return data

    return SimpleNamespace(build_model=module.build_model, build_data=build_data)


if __name__ == "__main__":
    with subprocess_run.report_failure(Path(sys.argv[1]).parent):
        main(Path(sys.argv[1]))
