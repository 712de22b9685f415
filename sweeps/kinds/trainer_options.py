"""`trainer_options(params)` of a trainable: settings of Lightning's Trainer beside those of this program.

Light: the driver checks them without importing Lightning, unless the trainable does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sweeps.common.errors import CannotTrain
from sweeps.common.yaml_values import is_number, nearest

_DEBUGGING = "it is for debugging; limit_train_batches and limit_val_batches shorten an epoch"
_EPOCHS = "trials are compared and pruned by epochs; give --max-epochs"
_OUTPUT = "a trial shows no progress of its own; the record has its epochs"
_LOGGER = "epochs are in the record; give --loggers for further ones"
_CHECKPOINTS = "checkpoints are written where a resume needs them; see --checkpoint-epochs"
_PLACE = (
    "it follows from the resources of a trial; see --gpus-per-trial and --workers-per-trial "
    "(sweeps fit: --devices)"
)
OWNED: Mapping[str, str] = {
    **dict.fromkeys(("max_epochs", "min_epochs"), _EPOCHS),
    **dict.fromkeys(("max_steps", "min_steps"), f"{_EPOCHS}, and --epoch-steps, the steps of an epoch"),
    "max_time": "a trial would end by the clock; --time-budget-hours limits a sweep",
    "precision": "give --precision",
    "strategy": "give --strategy",
    **dict.fromkeys(("accelerator", "devices", "num_nodes", "plugins"), _PLACE),
    "logger": _LOGGER,
    **dict.fromkeys(("enable_checkpointing", "default_root_dir", "model_registry"), _CHECKPOINTS),
    **dict.fromkeys(("enable_progress_bar", "enable_model_summary", "num_sanity_val_steps"), _OUTPUT),
    "profiler": "sweeps fit --profile profiles a run",
    **dict.fromkeys(("fast_dev_run", "overfit_batches", "barebones"), _DEBUGGING),
}
"""Settings of the Trainer that this program sets, each with the reason and what to give instead."""
FREE = (
    "accumulate_grad_batches", "benchmark", "callbacks", "detect_anomaly", "deterministic",
    "enable_autolog_hparams", "gradient_clip_algorithm", "gradient_clip_val", "inference_mode",
    "limit_predict_batches", "limit_test_batches", "limit_train_batches", "limit_val_batches",
    "log_every_n_steps", "reload_dataloaders_every_n_epochs", "sync_batchnorm", "use_distributed_sampler",
)  # fmt: skip
"""All the others, but for those of VALIDATION."""
VALIDATION = ("check_val_every_n_epoch", "val_check_interval")
"""Settings of the Trainer that are settings of FitConfig too: by them trials have their epochs."""
OWNED_CALLBACKS: Mapping[str, str] = {
    "Checkpoint": _CHECKPOINTS,
    **dict.fromkeys(("ProgressBar", "ModelSummary"), _OUTPUT),
    **dict.fromkeys(("LearningRateMonitor", "DeviceStatsMonitor", "ThroughputMonitor"), _LOGGER),
    "SaveConfigCallback": "best/ has the settings of the best trial",
    "Timer": OWNED["max_time"],
    "BatchSizeFinder": "sweeps fit --find-batch-size finds the largest micro-batch",
    "LearningRateFinder": "the search space has the step size",
    "GradientAccumulationScheduler": "give accumulate_grad_batches: the number must not change in a run",
    "StochasticWeightAveraging": (
        "its averaged weights are there only after the last validation, so that no trial would be judged by "
        "them. Take WeightAveraging or EMAWeightAveraging, whose averaged weights are validated and kept"
    ),
}
"""The same for Lightning's callbacks, by the name of their class or of a class that they extend."""


def checked(options: Any) -> dict[str, Any]:
    """What the function of a trainable has returned, as the options of a run.

    Raises:
        CannotTrain: some can't be taken; every fault, one a line.
    """
    if not isinstance(options, Mapping):
        raise CannotTrain(
            f"trainer_options must return a dict of settings of Lightning's Trainer, not {options!r}"
        )
    if lines := [f"trainer_options: {name}: {why}" for name, why in refused(options).items()]:
        raise CannotTrain("\n".join(lines))
    validation_of(options)
    found = {n: value for n, value in options.items() if value is not None and n not in VALIDATION}
    return {**found, "callbacks": callbacks_of(found)} if "callbacks" in found else found


def refused(options: Mapping[str, Any]) -> dict[str, str]:
    """Settings that can't be taken, each with the reason; a callback by the name of its class."""
    found = {name: f"the sweep sets it: {why}" for name, why in OWNED.items() if name in options}
    for name in options:
        if name not in OWNED and name not in (taken := (*FREE, *VALIDATION)):
            hint = nearest(str(name), (*taken, *OWNED))
            found[str(name)] = f"no such setting of Lightning's Trainer.{hint} Choices: {', '.join(taken)}"
    for each in callbacks_of(options):
        if why := why_owned(type(each)):
            found[type(each).__name__] = f"it can't be taken: {why}"
    steps = options.get("accumulate_grad_batches")
    if steps is not None and (not isinstance(steps, int) or steps < 1):
        found["accumulate_grad_batches"] = f"{steps!r}: must be a whole number, at least 1"
    return found


def why_owned(callback: type) -> str:
    """Why a class of callbacks can't be taken; "" where it can."""
    return next((why for name in _of_lightning(callback) if (why := OWNED_CALLBACKS.get(name))), "")


def only_shows_or_saves(callback: type) -> bool:
    """Whether leaving out such a class of callbacks changes nothing in the training."""
    return any(
        OWNED_CALLBACKS.get(name) in (_CHECKPOINTS, _OUTPUT, _LOGGER) for name in _of_lightning(callback)
    )


def _of_lightning(callback: type) -> Iterator[str]:
    """The classes of Lightning that a callback is one of."""
    return (each.__name__ for each in callback.__mro__ if each.__module__.startswith("lightning.pytorch."))


def validation_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """What the settings of a Trainer say of its validations, without what is Lightning's default.

    Raises:
        CannotTrain: trials can't be compared so.
    """
    every, interval = options.get("check_val_every_n_epoch", 1), options.get("val_check_interval")
    if isinstance(interval, float) and interval == 1:
        interval = None
    if interval is not None and not (is_number(interval) and interval > 0):
        raise CannotTrain(
            f"val_check_interval {interval}: trials are compared after as many batches, not by the clock; "
            "give a number of batches, or a share of the training data such as 0.25"
        )
    if every is not None and (not isinstance(every, int) or every < 1):
        raise CannotTrain(f"check_val_every_n_epoch {every!r}: must be a whole number, at least 1")
    if interval is not None and (every or 1) > 1:
        raise CannotTrain(
            f"check_val_every_n_epoch {every} and val_check_interval {interval}: each says what an epoch is; "
            "give one of them"
        )
    if interval is not None:
        return {"val_check_interval": interval}
    return {"check_val_every_n_epoch": every} if (every or 1) > 1 else {}


def callbacks_of(options: Mapping[str, Any]) -> list[Any]:
    """The callbacks: Lightning takes one, too."""
    given = options.get("callbacks")
    return list(given) if isinstance(given, list | tuple) else [] if given is None else [given]


def in_parts(
    options: Mapping[str, Any],
    parts: int,
    epoch_steps: int | None,
    steps: int | None = None,
    interval: float | int | None = None,
) -> dict[str, Any]:
    """Options as the Trainer takes them, but for callbacks; it counts micro-batches.

    Args:
        options: of the trainable, which count whole batches.
        parts: micro-batches of a batch.
        epoch_steps: steps of the optimizer in an epoch; None: of all batches.
        steps: most steps of an epoch and batches of a validation; None: all.
        interval: batches of an epoch, or below 1 a share of all; None: all.
    """
    accumulation = parts * options.get("accumulate_grad_batches", 1)
    train, val = (_in_parts(options.get(f"limit_{part}_batches"), parts) for part in ("train", "val"))
    if interval is not None:
        train = _in_parts(interval, parts)
    if epoch_steps is not None:
        train = _at_most(train, epoch_steps * accumulation)
    if steps is not None:
        train, val = _at_most(train, steps * accumulation), _at_most(val, steps)
    others = {name: value for name, value in options.items() if name != "callbacks"}
    limits = {"limit_train_batches": train, "limit_val_batches": val}
    return {**others, **limits, "accumulate_grad_batches": accumulation}


def _at_most(limit: float | int | None, batches: int) -> int:
    """The smaller limit; of a share of all batches it is not known."""
    return min(limit, batches) if isinstance(limit, int) else batches


def _in_parts(limit: float | int | None, parts: int) -> float | int | None:
    """A limit of batches in micro-batches; a share stays one."""
    return limit * parts if isinstance(limit, int) else limit
