"""Ray Tune as its documentation has it: a function, a Trainer, a report and a checkpoint each epoch.

`python -m benchmarks._tune FOLDER new|reuse`. Of Lightning's defaults the bar is off, as in Ray's
examples, and Lightning's own checkpoints, which would only be a second copy.
"""

from __future__ import annotations

import sys
from typing import Any

import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler

from benchmarks._job import Job


def train(config: dict[str, Any], job: Job) -> None:
    """The function trainable."""
    import lightning.pytorch as pl
    from ray.tune.integration.pytorch_lightning import TuneReportCheckpointCallback

    module = job.module()
    pl.seed_everything(job.seed, verbose=False)
    params = module.Params(**job.trials[config["number"]])
    report: Any = TuneReportCheckpointCallback({module.METRIC: module.METRIC}, on="validation_end")
    trainer = pl.Trainer(
        max_epochs=job.max_epochs,
        accelerator=job.accelerator,
        devices=1,
        enable_progress_bar=False,
        enable_checkpointing=False,
        callbacks=[report],
    )
    trainer.fit(module.build_model(params), job.build_data(params))


def main(folder: str, kind: str) -> None:
    job = Job.read(folder)
    ray.init("local", num_cpus=job.workers, include_dashboard=False, log_to_driver=False)
    scheduler = ASHAScheduler(
        max_t=job.max_epochs, grace_period=job.grace_epochs, reduction_factor=job.reduction_factor
    )
    tuner = tune.Tuner(
        tune.with_resources(tune.with_parameters(train, job=job), {"cpu": 1, "gpu": job.gpus}),
        param_space={"number": tune.grid_search(list(range(len(job.trials))))},
        tune_config=tune.TuneConfig(
            metric="val_acc", mode="max", scheduler=scheduler, reuse_actors=kind == "reuse"
        ),
        run_config=tune.RunConfig(storage_path=folder, name="tune", verbose=1),
    )
    grid = tuner.fit()
    if grid.errors:
        raise RuntimeError(f"{len(grid.errors)} trials failed: {grid.errors[0]}")
    rows: Any = [grid[index] for index in range(len(grid))]
    best: Any = grid.get_best_result("val_acc", "max", scope="all").metrics_dataframe
    epochs = {row.config["number"]: row.metrics["training_iteration"] for row in rows}
    job.tell(epochs, best=float(best["val_acc"].max()))
    ray.shutdown()


if __name__ == "__main__":
    # A function that is defined in __main__ travels by value, with all that it needs.
    from benchmarks import _tune

    _tune.main(sys.argv[1], sys.argv[2])
