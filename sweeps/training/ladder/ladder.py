"""The speed ladder: train a model as it is given, then with one change after another.

Each rung adds one change to the fastest setup so far and is measured by itself; a rung that does not help is
shown and left out of those that follow.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import torch

from sweeps.common.errors import CannotTrain, UserError
from sweeps.common.formatting import shown_path
from sweeps.common.param_types import build_params, hints_of
from sweeps.training import micro_batches
from sweeps.training.data import dataset, preparation
from sweeps.training.ladder import measure, report, rungs
from sweeps.training.ladder.measure import Result
from sweeps.training.ladder.rungs import AGAIN, RUNGS, Capabilities, LadderConfig

LEAST_SPEEDUP = 1.02
"""Speed-up over the fastest setup so far from which a rung is kept; less is noise."""


def climb(config: LadderConfig) -> int:
    """Measure rung by rung; print and write each result. Returns the exit status."""
    trainable = config.trainable
    print(f"Ladder of {trainable.name}, {config.seconds:g} s a rung, on {report.machine()}", flush=True)
    # Raises where the raw data is missing.
    dataset.describe_data(trainable, build_params(trainable.params_class, config.params))
    has = _capabilities(config)
    if notice := report.notice(measure.busy_cores()):
        print(f"Notice     {notice}: the figures may allow no verdict")
    print(f"\n{report.HEAD}", flush=True)
    results: list[Result] = []
    try:
        config.folder.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"{config.folder}: {error.strerror}") from None
    for result in _results(config, has):
        results.append(result)
        print(report.line(result), flush=True)
        report.write(config, results)
        if results[0].speed is None:
            return 1
    print(f"\n{report.summary(results)}\n")
    for path in sorted(config.folder.iterdir()):
        print(f"           {shown_path(path)}")
    return 0


def _results(config: LadderConfig, has: Capabilities) -> Iterator[Result]:
    fastest, first_speed, best_speed = rungs.start(has), 0.0, 0.0
    for name, change in RUNGS.items():
        setup = change(fastest, has)
        if isinstance(setup, str):
            yield Result(name, None, None, f"skipped: {setup}", False)
            continue
        busy_cores = measure.busy_cores()
        speed, reason = measure.measure(config.trainable.name, config.params, setup, config.seconds)
        if speed is None:
            yield Result(name, None, None, f"failed: {reason}", False)
            continue
        first_speed = first_speed or speed.samples_s
        is_faster = not best_speed or speed.samples_s / best_speed > LEAST_SPEEDUP
        note, more = rungs.changes(fastest, setup), setup.fit.devices / fastest.fit.devices
        if name == AGAIN:
            is_faster, note = False, "the first rung once more"
        elif not is_faster:
            note = f"left out: {note}"
        elif best_speed and 1 < more < speed.samples_s / best_speed:
            is_faster = False
            note = f"left out: over {more:g}x by {setup.fit.devices} devices can't be: {note}"
        yield Result(name, speed, speed.samples_s / first_speed, note, is_faster, busy_cores)
        if is_faster:
            best_speed, fastest = speed.samples_s, setup


def _capabilities(config: LadderConfig) -> Capabilities:
    """What the PC and the trainable offer; raw data that is not prepared yet is prepared first."""
    trainable = config.trainable
    folder = preparation.prepare_for_run(trainable, config.params)
    data = trainable.build_data(build_params(trainable.params_class, config.params), folder)
    batch_rows = None
    with contextlib.suppress(CannotTrain):
        batch_rows = micro_batches.read_batch_rows(data)
    return Capabilities(
        gpus=torch.cuda.device_count(),
        cores=os.cpu_count() or 1,
        batch_rows=batch_rows,
        has_raw=trainable.build_raw_data is not None,
        has_prepared=trainable.preparation is not None,
        has_loader_hyperparameter="loader_workers" in hints_of(trainable.params_class),
    )
