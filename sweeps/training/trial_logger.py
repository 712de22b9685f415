"""What a model finds as `self.logger`: its numbers become metrics of the record, all else is dropped."""

from __future__ import annotations

import contextlib
import numbers
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers.logger import Logger

from sweeps.training.lightning_internals import is_called_by_lightning

SCALAR_METHODS = ("add_scalar", "add_scalars", "log", "log_metric", "log_metrics", "track", "report_scalar")
"""Methods by which the libraries of experiment tracking take numbers: TensorBoard, W&B, MLflow, Comet, Aim,
ClearML."""
COUNTERS = ("epoch", "step", "global_step", "trainer/global_step")
"""Names of numbers that only say when something was logged."""

NO_VALUES = (*COUNTERS, "iteration", "walltime", "timestamp", "context", "run_id")
"""Keywords of such methods that are no number to keep."""


class TrialLogger(Logger):
    """A logger that writes nothing. Every method of Lightning's loggers can be called.

    Args:
        folder: for files of the model; None: a temporary one.
        say: takes a notice for the user; each text may come many times.
    """

    def __init__(self, folder: Path | None, say: Callable[[str], None]) -> None:
        super().__init__()
        self._folder, self._is_temporary, self._say = folder, folder is None, say
        self._scalars: dict[str, float] = {}

    @property
    def experiment(self) -> Any:
        """What a library of experiment tracking would have here."""
        return Experiment(self, "self.logger.experiment")

    @property
    def name(self) -> str:
        """Of no experiment."""
        return ""

    @property
    def version(self) -> str:
        """Of no experiment."""
        return ""

    @property
    def save_dir(self) -> str:
        """A folder for files of the model, made on first use."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="sweeps-logs-"))
        self._folder.mkdir(parents=True, exist_ok=True)
        return str(self._folder)

    log_dir = root_dir = sub_dir = save_dir

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Note the numbers; not what Lightning gives, which are those of `self.log`."""
        if not is_called_by_lightning():
            self.note("self.logger.log_metrics", metrics)

    def log_hyperparams(self, *_: Any, **__: Any) -> None:
        """Drop them: the record has those of the trial."""

    def new_scalars(self) -> dict[str, float]:
        """The numbers since the last call, the last one of each name."""
        if self._is_temporary and self._folder is not None and any(self._folder.iterdir()):
            self._say("the files that the model writes into self.logger.save_dir are removed with the trial")
        found, self._scalars = self._scalars, {}
        return found

    def close(self) -> None:
        """Remove the folder, if it is a temporary one, or empty."""
        if self._is_temporary and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        elif self._folder is not None:
            with contextlib.suppress(OSError):
                self._folder.rmdir()

    def dropped(self, call: str) -> None:
        """Tell that something is dropped."""
        self._say(f"{call} is dropped: of what a model logs, a trial keeps the numbers, as metrics")

    def note(self, call: str, values: Mapping[str, Any]) -> None:
        """Keep numbers by their names."""
        for name in values.keys() - set(COUNTERS):
            value = values[name]
            try:
                self._scalars[name] = float(value)
            except (TypeError, ValueError, RuntimeError):  # an image, a table, a tensor of several numbers
                self.dropped(call)

    def __getitem__(self, _: int) -> TrialLogger:
        return self

    def __iter__(self) -> Iterator[TrialLogger]:
        yield self

    def __getattr__(self, name: str) -> Any:
        """A method of some other logger, which drops what it is given."""
        if name.startswith("_"):
            raise AttributeError(name)
        return Experiment(self, f"self.logger.{name}")


class Experiment:
    """Has every attribute, and takes every call, of any library of experiment tracking. As a text it is "".

    Args:
        logger: takes numbers, and the calls whose arguments are dropped.
        path: by which the model has reached it.
        key: of the last `[...]` in the path, which is the name of what is given to it.
    """

    def __init__(self, logger: TrialLogger, path: str, key: str = "") -> None:
        self._logger, self._path, self._key = logger, path, key

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("log_dir", "dir"):
            return self._logger.save_dir
        return Experiment(self._logger, f"{self._path}.{name}", self._key)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        method = self._path.rpartition(".")[2]
        if method == "get_logdir":
            return self._logger.save_dir
        values = {}
        if self._key and method in ("append", "log"):
            values = {self._key: arguments[0]} if arguments and _is_number(arguments[0]) else {}
        elif method in SCALAR_METHODS:
            values = _numbers(method, arguments, named)
        if values:
            self._logger.note(self._path, values)
        else:
            self._logger.dropped(self._path)
        return self

    def __getitem__(self, key: object) -> Experiment:
        return Experiment(self._logger, f"{self._path}[...]", str(key))

    def __setitem__(self, key: object, value: object) -> None:
        if _is_number(value) and not self._path.endswith(".config"):
            self._logger.note(self._path, {str(key): value})
        else:
            self._logger.dropped(f"{self._path}[...]")

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, *_: object) -> None: ...

    def __str__(self) -> str:
        return ""

    __fspath__ = __str__


def _numbers(method: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    """Names and numbers of a call: `(name, number)`, also as keywords, or a dict, also behind a name."""
    first = [*arguments, *(value for name, value in named.items() if name not in NO_VALUES)]
    names = [each for each in first if isinstance(each, str)]
    for each in first:
        if isinstance(each, Mapping):
            return dict(_flat(each, f"{names[0]}/" if names else ""))
    values = [each for each in first if _is_number(each)]
    if not names or not values:
        return {}
    if method == "report_scalar":  # of a title and a series
        return {"/".join(names[:2]): named.get("value", values[0])}
    return {names[-1]: values[0]}  # MLflow's log_metric takes the id of the run before the name


def _flat(values: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}/")
        else:
            yield f"{prefix}{name}", value


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) or (hasattr(value, "item") and not isinstance(value, Experiment))
