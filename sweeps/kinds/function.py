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
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, make_dataclass
from pathlib import Path
from typing import Any, Protocol, get_args

from sweeps.common.errors import collecting, refuse
from sweeps.common.objective import Mode, Objective
from sweeps.common.settings import flag
from sweeps.kinds import source_files
from sweeps.kinds.lightning import faults_of_params, space_of
from sweeps.kinds.trainable import FileTrainable, Trainable

TRAIN = "train"
"""Name of the function."""
OF_LIGHTNING = (
    *("precision", "strategy", "compile", "devices", "num_nodes", "micro_batch", "epoch_steps"),
    *(
        "check_val_every_n_epoch",
        "val_check_interval",
        "steps_per_epoch",
        "workers_per_trial",
        "find_batch_size",
        "profile",
        "test",
    ),
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

    has_first_steps = has_weights = False
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
    """A file with a function that trains, and what it may define beside it: METRIC and MODE, Params, SPACE.

    Args:
        name: as it was given to the command.
        module: the imported file.
    """

    kind = "function"

    def __init__(self, name: str, module: Any) -> None:
        super().__init__(name, module)
        defined = vars(module)
        if {"SPACE", "suggest"} & defined.keys():
            self.space = space_of(module)
        self.prior = defined.get("PRIOR")
        if "Params" not in defined:
            self.without_default = tuple(defined["SPACE"])

    @staticmethod
    def faults_of(module: Any) -> list[str]:
        return _faults(module)

    @staticmethod
    def params_of(module: Any) -> Any:
        defined = vars(module)
        return defined["Params"] if "Params" in defined else params_of_names(defined["SPACE"])

    @staticmethod
    def objective_of(module: Any) -> Objective | None:
        return Objective(module.METRIC, module.MODE) if "METRIC" in vars(module) else None

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


def params_of_names(names: Iterable[str]) -> type:
    """Params where there are only names, as those of a space.

    Raises:
        UserError: one is none for Python.
    """
    names = tuple(names)
    bad = [name for name in names if not str(name).isidentifier() or keyword.iskeyword(str(name))]
    refuse([f"space: {name!r} is no name of a hyperparameter, such as lr" for name in bad])
    fields = [(name, Any, field(default=None)) for name in names]
    return make_dataclass("Params", fields, frozen=True, kw_only=True)


def _faults(module: Any) -> list[str]:
    defined = vars(module)
    faults = [] if takes_two(module.train) else [f"{TRAIN} must take two arguments, {TRAIN}(params, trial)"]
    if ("METRIC" in defined) != ("MODE" in defined):
        faults.append("METRIC and MODE are defined together, or none of them (then give --metric and --mode)")
    elif "MODE" in defined and module.MODE not in get_args(Mode):
        faults.append(f"MODE {module.MODE!r} must be min or max")
    if "Params" in defined:
        faults += faults_of_params(module.Params)
    elif not isinstance(defined.get("SPACE"), Mapping):
        faults.append("without Params it needs SPACE, a dict with a range for each hyperparameter")
    else:
        with collecting(faults):
            params_of_names(defined["SPACE"])
    return faults


def takes_two(function: Any) -> bool:
    """Whether a function can be called with two values."""
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    return True
