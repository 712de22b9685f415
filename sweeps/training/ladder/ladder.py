"""The speed ladder: train a model as it is given, then ever faster.

Each rung adds one thing to the fastest set-up so far, and is measured by itself; one that does not help is
shown and left out.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from sweeps.common.errors import UserError
from sweeps.common.formatting import place
from sweeps.common.yaml_values import ParamValue
from sweeps.training.ladder import measure, rungs
from sweeps.training.ladder.measure import Result
from sweeps.training.ladder.rungs import Place

HELPS = 1.02
"""Of the fastest so far; less is noise."""


@dataclass(frozen=True)
class Asked:
    """A ladder that is asked for."""

    trainable: str
    module: ModuleType
    params: Mapping[str, ParamValue]
    seconds: float
    folder: Path


def climb(asked: Asked) -> int:
    """Measure rung by rung, say and keep each; the exit status."""
    from sweeps.training.data.dataset import describe_data
    from sweeps.training.ladder import report

    print(f"Ladder of {asked.trainable}, {asked.seconds:g} s each, on {report.machine()}", flush=True)
    describe_data(asked.trainable, asked.module, asked.module.Params(**asked.params))
    where = _place(asked)
    busy_cores = measure.busy_cores()
    if notice := report.notice(busy_cores):
        print(f"Notice     {notice}")
    print(f"\n{report.HEAD}", flush=True)
    results: list[Result] = []
    try:
        asked.folder.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"{asked.folder}: {error.strerror}") from None
    for result in _results(asked, where):
        results.append(result)
        print(report.line(result), flush=True)
        report.write(asked.folder, asked.trainable, asked.params, results, busy_cores)
        if results[0].speed is None:
            return 1
    print(f"\n{report.summary(results)}\n")
    for path in sorted(asked.folder.iterdir()):
        print(f"           {place(path)}")
    return 0


def _results(asked: Asked, where: Place) -> Iterator[Result]:
    setup, start, best = rungs.first(where), 0.0, 0.0
    for rung in rungs.RUNGS:
        changed = rung.set_up(setup, where)
        if isinstance(changed, str):
            yield Result(rung.name, None, None, f"can't be here: {changed}", False)
            continue
        found, reason = measure.measure(asked.trainable, asked.params, changed, asked.seconds)
        if found is None:
            yield Result(rung.name, None, None, f"failed: {reason}", False)
            continue
        start = start or found.samples_s
        helps = found.samples_s > HELPS * best
        words = rungs.in_words(setup, changed)
        note = words if helps else f"left out: {words}"
        yield Result(rung.name, found, found.samples_s / start, note, helps, changed)
        if helps:
            best, setup = found.samples_s, changed


def _place(asked: Asked) -> Place:
    """What there is; raw data is prepared first, where it is not yet."""
    import torch

    from sweeps.training.data import build, dataset
    from sweeps.training.distributed import gradient_accumulation

    module: Any = asked.module
    folder = build.of_trial(asked.trainable, module, asked.params)
    data = dataset.build_data(module, module.Params(**asked.params), folder)
    return Place(
        gpus=torch.cuda.device_count(),
        cores=os.cpu_count() or 1,
        batch_rows=gradient_accumulation.of(data),
        has_raw=hasattr(module, "build_raw_data"),
        has_prepared=dataset.has_preparation(module),
        has_loader_hyperparameter="loader_workers"
        in {field.name for field in dataclasses.fields(module.Params)},
    )
