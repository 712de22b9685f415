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
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from sweeps.common.errors import collecting
from sweeps.common.settings import flag
from sweeps.kinds import source_files
from sweeps.kinds.lightning import faults_of_objective, faults_of_params, takes
from sweeps.kinds.trainable import FileTrainable, Trainable, params_of_names

TRAIN = "train"
"""Name of the function."""
OF_LIGHTNING = (
    *("precision", "strategy", "compile", "devices", "num_nodes", "micro_batch", "epoch_steps"),
    *("check_val_every_n_epoch", "val_check_interval", "steps_per_epoch", "workers_per_trial"),
    *("find_batch_size", "profile", "test"),
)
"""Settings that a function does not take."""
REPORTERS = frozenset({"ReportEpochs", "ReportEvaluations", "ReportRounds"})
"""What `sweeps.integrations` has for the loops of other libraries; each saves."""
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
    metrics: Sequence[str]
    """That each report must have; the first one decides which epoch is the best."""
    threads: int
    """CPU cores of the trial."""
    stop_grace_s: float
    """Seconds that its processes have to end in order."""

    @property
    def epochs_done(self) -> int:
        """Epochs that were reported; 0 at the start."""

    @property
    def epochs(self) -> Iterator[int]:
        """The epochs that are left: 1, 2, ..., or from the one after the checkpoint."""

    def report(self, metrics: Mapping[str, Any], save: Save | None = None) -> None:
        """Report an epoch that has ended. It returns only where the trial goes on.

        Args:
            metrics: name to number.
            save: writes a checkpoint of this epoch; it is called where one is due.
        """


class FunctionTrainable(Trainable):
    """One that trains by calling a function, which reports epoch by epoch."""

    trains_elsewhere = False
    """Whether other processes train than the one that calls it."""

    @abstractmethod
    def train(self, params: Any, trial: Trial) -> object:
        """Train a trial.

        Args:
            params: an instance of its Params.
            trial: that it reports to.
        """

    def faults_of_settings(self, given: Collection[str]) -> list[str]:
        what = f"it is for a LightningModule, and {self.called} is a {self.description.kind}"
        return [f"{flag(name)}: {what}" for name in given if name in OF_LIGHTNING]

    def note_on_more_epochs(self) -> str:
        return (
            f"whether {self.called} schedules its learning rate by the number of epochs is not known: where "
            "it does, lr-schedule anew trains from the start"
        )

    def notes(self) -> Sequence[tuple[str, str]]:
        then = "a trial that is paused or interrupted starts again"
        return () if self.saves else [("checkpoint", f"{self.called} reports without save: {then}")]


class FunctionFile(FileTrainable, FunctionTrainable):
    """A file with a function that trains, and what it may define beside it."""

    kind = "function"

    @staticmethod
    def faults_of(module: Any) -> list[str]:
        own, faults = vars(module), list[str]()
        if inspect.iscoroutinefunction(module.train) or inspect.isasyncgenfunction(module.train):
            faults.append(f"{TRAIN} must be a plain function, without async: a trial calls it")
        elif inspect.isgeneratorfunction(module.train):
            faults.append(f"{TRAIN} must be a plain function, without yield: it reports with trial.report")
        if not takes(module.train, 2):
            faults.append(f"{TRAIN} must take two arguments, {TRAIN}(params, trial)")
        if ("METRIC" in own) != ("MODE" in own):
            both = "METRIC and MODE are defined together, or none of them"
            faults.append(f"{both} (then give --metric and --mode)")
        elif "METRIC" in own:
            faults += faults_of_objective(module)
        if "Params" in own:
            faults += faults_of_params(module.Params)
        elif not isinstance(own.get("SPACE"), Mapping):
            space = "without Params it needs SPACE, a dict with a range for each hyperparameter"
            faults.append(f"{space}; with Params, --ranges may be the whole space")
        else:
            with collecting(faults):
                params_of_names(own["SPACE"])
        return faults

    @property
    def called(self) -> str:
        return f"{self.name}.{TRAIN}"

    def train(self, params: Any, trial: Trial) -> object:
        return self._module.train(params, trial)

    @property
    def saves(self) -> bool:
        """Whether a report of its project's code has `save`, or one of `REPORTERS` is made."""
        files = source_files.files(self.sources()).values()
        return any(saves_in(file.read_bytes()) for file in files)


def saves_in(source: str | bytes) -> bool:
    """Whether code calls a method `report` with a second argument, or one of `REPORTERS`."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # its import may be tried alone
        return False
    return any(_saves(node) for node in ast.walk(tree) if isinstance(node, ast.Call))


def _saves(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name):
        return call.func.id in REPORTERS
    if not isinstance(call.func, ast.Attribute):
        return False
    has_save = len(call.args) > 1 or any(each.arg == "save" for each in call.keywords)
    return call.func.attr in REPORTERS or (call.func.attr == "report" and has_save)


def is_function(module: Any) -> bool:
    """Whether a file trains by a function."""
    defined = vars(module)
    return callable(defined.get(TRAIN)) and "build_model" not in defined
