"""Ray Tune with nothing around it, of the trivial model: `python -m benchmarks._bare_tune FOLDER`

A class with `reuse_actors`, Tune's random proposals and ASHA, a lean `fit()` of Lightning for each epoch, no
loggers, no checkpoints, no reporter. `ended.json` in the folder gets the time at which each trial ended.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler

from benchmarks._job import Job


class Trivial(tune.Trainable):
    """One trial after another."""

    def setup(self, config: dict[str, Any], **shared: Any) -> None:
        self._job: Job = shared["job"]
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._params = {"x": new_config["x"]}
        return True

    def step(self) -> dict[str, Any]:
        from benchmarks import _lean

        _lean.fit(self._job, self._params, 1)
        return {"score": self._params["x"]}


class Ends(tune.Callback):
    """Notes when trials end."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.times.append(time.time())


def main(folder: str, trials: int) -> None:
    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    job, ends = Job.read(folder), Ends()
    ray.init("local", num_cpus=job.workers, include_dashboard=False, log_to_driver=False)
    scheduler = ASHAScheduler(
        max_t=job.max_epochs, grace_period=job.grace_epochs, reduction_factor=job.reduction_factor
    )
    tuner = tune.Tuner(
        tune.with_resources(tune.with_parameters(Trivial, job=job), {"cpu": 1}),
        param_space={"x": tune.uniform(0.0, 1.0)},
        tune_config=tune.TuneConfig(
            metric="score", mode="max", scheduler=scheduler, reuse_actors=True, num_samples=trials
        ),
        run_config=tune.RunConfig(
            storage_path=folder,
            name="tune",
            verbose=0,
            callbacks=[ends],
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
        ),
    )
    tuner.fit()
    (Path(folder) / "ended.json").write_text(json.dumps(ends.times))
    ray.shutdown()


if __name__ == "__main__":
    # What is defined in __main__ travels by value, with all that it needs.
    from benchmarks import _bare_tune

    _bare_tune.main(sys.argv[1], int(sys.argv[2]))
