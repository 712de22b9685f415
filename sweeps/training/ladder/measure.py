"""How fast a trainable trains in a given set-up: `python -m sweeps.training.ladder.measure FILE`.

The training steps alone are timed, from a batch's arrival to the next one's: not validation, not the first
steps, in which memory is allocated and code compiled.
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
from typing import Any

import psutil

from sweeps.common import atomic_io, plugins, project
from sweeps.common.cli.command import TRAINABLE
from sweeps.common.yaml_values import ParamValue
from sweeps.training import subprocess_run
from sweeps.training.config import FitConfig, Precision, Strategy

WARM_UP_STEPS = 3
BLOCKS = 3
"""Parts of what is measured, each with a rate of its own: their median counts."""
LOADER_S = 3.0
"""For which the loader runs by itself."""
TIMEOUT_S = 3600
"""Long for a few steps of the slowest raw data; a worker that waits for another one does so for ever."""
LOOK_S = 1.0
"""Time in which the load of other processes is measured."""
FOUND_FILE = "speed.json"


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How a trainable is trained."""

    is_raw: bool = False
    """Whether it reads its raw data, by `build_raw_data`."""
    loader_workers: int | None = None
    """Processes that read ahead; None: as its Params say."""
    batch_rows: int | None = None
    """Rows of a batch; None: as its Params say."""
    precision: Precision = "32"
    strategy: Strategy = "single"
    devices: int = 1
    threads: int = 1
    compile: bool = False


@dataclass(frozen=True, kw_only=True)
class Speed:
    """What came of it."""

    samples_s: float
    """Rows that are trained on in a second; the median of `blocks`."""
    blocks: list[float]
    epoch_rows: int
    batch_rows: int
    data_wait_pct: float
    """Of the time of the steps."""
    gpu_util_pct: float | None
    """By NVML; None: it ran on a CPU, or NVML is not there."""
    cores_busy_pct: float
    """Of all the PC's cores."""
    loader_rows_s: float | None
    """Rows that the loader gives when nothing else runs; of one worker."""


def measure(
    trainable: str, params: Mapping[str, ParamValue], setup: Setup, seconds: float
) -> tuple[Speed | None, str]:
    """Train for so many seconds in a process of its own: the speed, or why there is none."""
    with tempfile.TemporaryDirectory(prefix="sweeps-speed-", ignore_cleanup_errors=True) as folder:
        asked = Path(folder) / "asked.json"
        content = {
            "trainable": trainable,
            "project": str(project.folder()),
            "params": dict(params),
            "setup": dataclasses.asdict(setup),
            "seconds": seconds,
        }
        asked.write_text(json.dumps(content))
        command = [sys.executable, "-m", "sweeps.training.ladder.measure", str(asked)]
        failure = subprocess_run.why(subprocess_run.run(command, TIMEOUT_S), Path(folder))
        if not failure:
            return Speed(**json.loads((Path(folder) / FOUND_FILE).read_text())), ""
    return None, in_a_line(failure)


def busy_cores() -> float:
    """Cores that other programs keep busy just now; looks for `LOOK_S`."""
    return psutil.cpu_percent(LOOK_S) / 100 * (psutil.cpu_count() or 1)


def in_a_line(failure: str) -> str:
    """The line of a traceback that names the error: a message may have more below it; else the last line."""
    lines = failure.splitlines()
    frames = [number for number, line in enumerate(lines) if line.startswith('  File "')]
    below = lines[frames[-1] + 1 :] if frames else []
    return next((line for line in below if not line.startswith("  ")), lines[-1])


def main(file: Path) -> None:
    """Measure what a file asks for; beside it stands the answer, or why there is none."""
    asked = json.loads(file.read_text())
    setup, params = Setup(**asked["setup"]), asked["params"]
    project.use(Path(asked["project"]))
    module: Any = plugins.find(TRAINABLE, asked["trainable"])

    from sweeps.training.data import build
    from sweeps.training.distributed import launch
    from sweeps.training.fit_loop import Fit
    from sweeps.training.ladder.throughput import Timed

    prepared = None if setup.is_raw else build.of_trial(asked["trainable"], module, params)
    if setup.loader_workers is not None and not setup.is_raw:
        params = {**params, "loader_workers": setup.loader_workers}
    timed = Timed(asked["seconds"], WARM_UP_STEPS, BLOCKS, is_compiled=setup.compile)
    config = FitConfig(
        max_epochs=10**6,
        metric=module.METRIC,
        mode=module.MODE,
        precision=setup.precision,
        strategy=setup.strategy,
        devices=setup.devices,
        threads=setup.threads,
        compile=setup.compile,
    )
    Fit(_SetUp(module, setup, prepared), module.Params(**params), config).run(lambda epoch: True, timed)
    if launch.is_first():
        atomic_io.write(file.with_name(FOUND_FILE), json.dumps(_answer(timed, setup)))


def _answer(timed: Any, setup: Setup) -> dict[str, Any]:
    rates = [rate * setup.devices for rate in timed.rates]
    speed = Speed(
        samples_s=statistics.median(rates),
        blocks=rates,
        epoch_rows=timed.epoch_rows * setup.devices,
        batch_rows=timed.batch_rows * setup.devices,
        data_wait_pct=timed.data_wait_pct,
        gpu_util_pct=timed.gpu_util_pct,
        cores_busy_pct=timed.cores_busy_pct,
        loader_rows_s=timed.loader_alone(LOADER_S) if setup.devices == 1 else None,
    )
    return dataclasses.asdict(speed)


class _SetUp:
    """A trainable whose data is as a set-up has it."""

    def __init__(self, module: Any, setup: Setup, prepared: Path | None) -> None:
        def build_data(params: Any) -> Any:
            from sweeps.training.data.dataset import build_data as as_it_is

            if setup.is_raw:
                data = module.build_raw_data(params, setup.loader_workers or 0)
            else:
                data = as_it_is(module, params, prepared)
            if setup.batch_rows is not None:
                data.batch_size = setup.batch_rows
            return data

        self.METRIC, self.MODE, self.Params = module.METRIC, module.MODE, module.Params
        self.build_model, self.build_data = module.build_model, build_data


if __name__ == "__main__":
    with subprocess_run.telling(Path(sys.argv[1]).parent):
        main(Path(sys.argv[1]))


@dataclass(frozen=True)
class Result:
    """What became of a rung."""

    rung: str
    speed: Speed | None
    times: float | None
    """As fast as the first rung."""
    note: str
    """Why it was left out, or could not be; what it was."""
    is_kept: bool
    setup: Setup | None = None
    """Of what was measured."""
