"""The score of the winner on the test rows."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from sweeps.common import imports
from sweeps.common.param_types import build_params
from sweeps.kinds import registry
from sweeps.space.point import Point
from sweeps.trial.job import Job


def test_winner(
    job: Job, point: Point, seed: int, micro_batch: int | None, files: Mapping[str, bytes]
) -> dict[str, float]:
    """Score weights on the test rows, in a process with the resources of a trial.

    With the seed that trained them: a data module that draws its split at random draws the same one. And with
    the rows at once that fitted in memory then.

    Args:
        job: of the sweep.
        point: what was trained.
        seed: of the trial.
        micro_batch: rows at once.
        files: those of the weights, by name: this PC may not see the folder of the sweep.
    """
    with imports.fast():
        from sweeps.training import torch_state, trained_model  # with PyTorch, which the driver does not load
    torch_state.seed_again(0)  # as `TrainableCache` does
    trainable = registry.load(job.trainables[point.trainable])
    params = build_params(trainable.params_class, {**point.fixed, **point.params})
    data = job.data_of(trainable, params)
    fit = job.fit_of({"seed": seed, "micro_batch": micro_batch})
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        return trained_model.score_test_rows(trainable, params, fit, Path(folder), prepared=data)
