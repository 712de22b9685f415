"""One fast training run, multiplied into many trials, pruned, recorded and learned from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sweeps.common import imports

if TYPE_CHECKING:
    from sweeps.analysis.sweep import Sweep
    from sweeps.common.errors import CannotContinue as CannotContinue
    from sweeps.common.errors import UserError as UserError

imports.unite_lightning()  # before anything of the user's is imported, in each process


def run(
    trainable: Any = None,
    *,
    space: Mapping[str, Any] = {},
    data: Any = None,
    metric: str | list[str] | None = None,
    mode: str | None = None,
    num_trials: int | None = None,
    max_epochs: int | None = None,
    name: str | None = None,
    resume: str | None = None,
    **settings: Any,
) -> Sweep | None:
    """Run a sweep from Python or from a notebook; what `sweeps.results.load` returns of it.

    The sweep has a process of its own. An interrupt (Ctrl-C, or that of the cell) ends it in order, and is
    raised here then.

    Args:
        trainable: a function `train(params, trial)`, a class of LightningModules, or the name or the file of
            a trainable.
        space: hyperparameter to its range: a text such as "1e-4..1e-1:log", a list of choices, one value, or
            a domain of Ray Tune.
        data: of a LightningModule: a LightningDataModule, its class, loaders of the training and of the
            validation rows, or a function that returns one of these. A class and a function are called with
            the hyperparameters that they name.
        metric: by which trials are compared, as "val_acc".
        mode: whether a small or a large metric is better, "min" or "max".
        num_trials: number of trials.
        max_epochs: epochs of a trial that is never pruned.
        name: of the sweep, and of its folder in results/.
        resume: the name of a sweep to go on with.
        settings: any other flag of `sweeps run`, as `max_concurrent=2`. With `dry_run=True` the plan is
            printed, and nothing is returned.

    Raises:
        UserError: something does not fit, and what would.
        CannotContinue: the sweep has ended without a result.
        KeyboardInterrupt: it was interrupted, and has ended in order.
    """
    from sweeps.python_api import sweep_process

    given = {"metric": metric, "mode": mode, "num_trials": num_trials, "max_epochs": max_epochs}
    return sweep_process.run(trainable, space, data, {**given, "name": name, "resume": resume, **settings})


def __getattr__(name: str) -> Any:
    """What `run` raises, as `sweeps.UserError`."""
    if name not in ("CannotContinue", "UserError"):
        raise AttributeError(f"module 'sweeps' has no attribute {name!r}")
    from sweeps.common import errors

    return vars(errors)[name]
