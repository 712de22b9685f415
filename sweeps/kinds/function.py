"""A file with a function that trains: `train(params, trial)`.

METRIC, MODE = "val_acc", "max"
SPACE = {"lr": tune.loguniform(1e-4, 1e-1)}

def train(params, trial):
    model, optimizer = ...
    if trial.checkpoint:
        load(trial.checkpoint / "state.pt")
    for epoch in trial.epochs:
        ...
        trial.report({"val_acc": acc}, save=lambda folder: torch.save(state, folder / "state.pt"))
"""

from __future__ import annotations

import ast
import inspect
import keyword
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Any, Protocol, get_args

from sweeps.common.objective import Mode, Objective
from sweeps.common.settings import flag
from sweeps.kinds import source_files
from sweeps.kinds.lightning import faults_of_params, space_of
from sweeps.kinds.trainable import FileTrainable

TRAIN = "train"
"""Name of the function."""
OF_LIGHTNING = (
    *("precision", "strategy", "compile", "devices", "num_nodes", "micro_batch", "epoch_steps"),
    *("steps_per_epoch", "workers_per_trial", "find_batch_size", "profile", "test"),
)
"""Settings that a function does not take."""
Save = Callable[[Path], object]
"""Writes what continues a training into an empty folder."""


class Trial(Protocol):
    """What a function that trains gets beside its hyperparameters."""

    number: int
    """Of the trial in its sweep."""
    seed: int
    """Of the trial; Python, NumPy and PyTorch are seeded by it, for each epoch anew."""
    max_epochs: int
    """Epochs of a trial that is never pruned."""
    checkpoint: Path | None
    """The folder that `save` has filled, to go on from; None at the start."""

    @property
    def epochs(self) -> Iterator[int]:
        """The epochs that are left: 1, 2, ..., or from the one after the checkpoint."""

    def report(self, metrics: Mapping[str, Any], save: Save | None = None) -> None:
        """Report an epoch that has ended. It returns only where the trial goes on.

        Args:
            metrics: name to number.
            save: writes a checkpoint of this epoch; it is called where one is due.
        """


class FunctionFile(FileTrainable):
    """A file with a function that trains, and what it may define beside it: METRIC and MODE, Params, SPACE.

    Args:
        name: as it was given to the command.
        module: the imported file.
    """

    kind = "function"
    has_first_steps = has_weights = False

    def __init__(self, name: str, module: Any) -> None:
        super().__init__(name, module)
        defined = vars(module)
        if {"SPACE", "suggest"} & defined.keys():
            self.space = space_of(module)
        if "Params" not in defined:
            self.without_default = tuple(defined["SPACE"])
        self.train: Callable[[Any, Trial], object] = module.train

    @staticmethod
    def faults_of(module: Any) -> list[str]:
        return _faults(module)

    @staticmethod
    def params_of(module: Any) -> Any:
        defined = vars(module)
        return defined["Params"] if "Params" in defined else _params_of(defined["SPACE"])

    @staticmethod
    def objective_of(module: Any) -> Objective | None:
        return Objective(module.METRIC, module.MODE) if "METRIC" in vars(module) else None

    def faults_of_settings(self, given: Collection[str]) -> list[str]:
        what = f"it is for a LightningModule, and {self.name}.{TRAIN} is a function"
        return [f"{flag(name)}: {what}" for name in given if name in OF_LIGHTNING]

    def notes(self) -> Sequence[tuple[str, str]]:
        then = "a trial that is paused or interrupted starts again"
        return () if self.saves else [("checkpoint", f"{self.name}.{TRAIN} reports without save: {then}")]

    @property
    def saves(self) -> bool:
        """Whether a report of its project's code has `save`."""
        return any(map(_saves, source_files.files(self.sources()).values()))


def _saves(file: Path) -> bool:
    """Whether a file calls a method `report` with a second argument."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # its import may be tried alone
        return False
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "report"
        and (len(call.args) > 1 or any(each.arg == "save" for each in call.keywords))
        for call in calls
    )


def is_function(module: Any) -> bool:
    """Whether a file trains by a function."""
    defined = vars(module)
    return callable(defined.get(TRAIN)) and "build_model" not in defined


def _params_of(space: Mapping[str, Any]) -> type:
    """Params of a file without any: the hyperparameters of its space."""
    fields = [(name, Any, field(default=None)) for name in space]
    return make_dataclass("Params", fields, frozen=True, kw_only=True)


def _faults(module: Any) -> list[str]:
    defined = vars(module)
    faults = [] if _takes_two(module.train) else [f"{TRAIN} must take two arguments, {TRAIN}(params, trial)"]
    if ("METRIC" in defined) != ("MODE" in defined):
        faults.append("METRIC and MODE are defined together, or none of them (then give --metric and --mode)")
    elif "MODE" in defined and module.MODE not in get_args(Mode):
        faults.append(f"MODE {module.MODE!r} must be min or max")
    if "Params" in defined:
        faults += faults_of_params(module.Params)
    elif not isinstance(space := defined.get("SPACE"), Mapping):
        faults.append("without Params it needs SPACE, a dict with a range for each hyperparameter")
    elif bad := [name for name in space if not str(name).isidentifier() or keyword.iskeyword(str(name))]:
        faults.append(f"SPACE: {bad[0]!r} is no name of a hyperparameter, such as lr")
    return faults


def _takes_two(function: Any) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    return True
