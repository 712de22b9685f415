"""Epochs of a trainable, timed one by one: in a plain PyTorch loop, by `Fit`, by the command."""

from __future__ import annotations

import contextlib
import io
import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, get_type_hints

import lightning.pytorch as pl
import numpy as np
import torch
from torch.nn import functional

from sweeps.kinds import registry
from sweeps.kinds.lightning import LightningFile
from sweeps.kinds.trainable import LightningTrainable, as_lightning
from sweeps.training.config import FitConfig
from sweeps.training.runs.fit_loop import Fit
from sweeps.training.single_run import run_settings, training_run
from sweeps.training.torch_state import seed_again

SEED = 0
Change = Callable[[Any], object]
"""Does something to a model (or its data) that was built."""


class Clock:
    """When each epoch began, and the last one ended."""

    def __init__(self) -> None:
        self._marks: list[tuple[float, float]] = []

    def mark(self) -> None:
        """Now, when the GPU has done what it was given."""
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self._marks.append((time.perf_counter(), time.process_time()))

    def epochs(self) -> list[tuple[float, float]]:
        """Seconds, and CPU seconds of the process, of each epoch with all that stands between two."""
        return [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(self._marks)]


def device_name() -> str:
    """What all ways train on: the first GPU, where there is one."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


def by_plain_loop(name: str, epochs: int, clock: Clock) -> dict[str, float]:
    """The same model, optimizer, batches and metrics, without Lightning's Trainer.

    Returns:
        The metrics of the last epoch.
    """
    trainable = as_lightning(registry.find(name))
    torch.set_num_threads(1)
    pl.seed_everything(SEED, workers=True, verbose=False)
    params = trainable.params_class()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model, data = trainable.build_model(params).to(device), trainable.build_data(params, None)
    optimizer, schedule = _optimizer(model)
    train, val = (_Moved(it, device) for it in (data.train_dataloader(), data.val_dataloader()))
    metrics: dict[str, float] = {}
    for epoch in range(epochs):
        seed_again(int(np.random.SeedSequence((SEED, epoch)).generate_state(1)[0]))  # as Fit does
        clock.mark()
        metrics = {
            "train_loss": _train(model, optimizer, schedule, train),
            **_validate(model, val),
        }
    clock.mark()
    return metrics


def by_fit(
    name: str, epochs: int, clock: Clock, *, precision: Any = "32", **changes: Any
) -> dict[str, float]:
    """By `sweeps.training.runs.fit_loop.Fit` alone; its last epoch's metrics.

    Args:
        name: of the trainable.
        epochs: to train.
        clock: told when each begins.
        precision: as FitConfig has it.
        **changes: as `timed` has them.
    """
    trainable = timed(as_lightning(registry.find(name)), clock, **changes)
    own = trainable.objective
    assert own is not None
    config = FitConfig(max_epochs=epochs, metric=own.metric, mode=own.mode, precision=precision, seed=SEED)
    training = Fit(trainable, trainable.params_class(), config)
    while training.advance() is not None:
        pass
    return dict(training.progress.metrics)


def by_command(name: str, epochs: int, clock: Clock) -> None:
    """By all that `python -m sweeps.fit` runs: its words, its bar, its files, its checkpoints."""
    with tempfile.TemporaryDirectory(prefix="fit-") as folder, _on_a_terminal():
        flags = {"max-epochs": epochs, "threads": 1, "seed": SEED, "precision": 32, "results-dir": folder}
        words = [word for flag, value in flags.items() for word in (f"--{flag}", str(value))]
        run, trainable = run_settings.parse([name, *words])
        training_run.fit(run, timed(as_lightning(trainable), clock))


def timed(
    trainable: LightningTrainable,
    clock: Clock,
    *,
    model: Change | None = None,
    data: Change | None = None,
    **hyperparameters: Any,
) -> LightningTrainable:
    """A trainable whose model tells the clock of its epochs.

    Args:
        trainable: of the model.
        clock: is told.
        model: what else is done to the model.
        data: what is done to the data module.
        **hyperparameters: other defaults of Params.
    """

    def build_model(params: Any) -> Any:
        built: Any = trainable.build_model(params)
        for hook in ("on_train_epoch_start", "on_train_end"):
            setattr(built, hook, clock.mark)
        if model is not None:
            model(built)
        return built

    def build_data(params: Any) -> Any:
        built = trainable.build_data(params, None)
        if data is not None:
            data(built)
        return built

    own = trainable.objective
    assert own is not None
    module = SimpleNamespace(
        __name__=trainable.description.content,
        METRIC=own.metric,
        MODE=own.mode,
        Params=_with_defaults(trainable.params_class, hyperparameters),
        build_model=build_model,
        build_data=build_data,
        describe_data=trainable.describe_data,
    )
    return LightningFile(trainable.name, module)


def steps(name: str) -> int:
    """Batches of an epoch."""
    trainable = as_lightning(registry.find(name))
    return len(trainable.build_data(trainable.params_class(), None).train_dataloader())


class _Terminal(io.StringIO):
    """Takes what is written; a bar is shown on it."""

    def isatty(self) -> bool:
        return True


@contextlib.contextmanager
def _on_a_terminal() -> Iterator[None]:
    terminal = _Terminal()
    with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(terminal):
        yield


class _Moved:
    """Batches of a loader, on the device."""

    def __init__(self, loader: Any, device: torch.device) -> None:
        self._loader, self._device = loader, device

    def __iter__(self) -> Iterator[list[torch.Tensor]]:
        for batch in self._loader:
            yield [tensor.to(self._device, non_blocking=True) for tensor in batch]  # as Lightning does


def _optimizer(model: Any) -> tuple[Any, Any]:
    made = model.configure_optimizers()
    if isinstance(made, dict):
        return made["optimizer"], made["lr_scheduler"]["scheduler"]
    return made, None


def _train(net: Any, optimizer: Any, schedule: Any, batches: Any) -> float:
    net.train()
    summed, rows = torch.zeros((), device=net.device), 0
    for inputs, labels in batches:
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(inputs), labels)
        torch.autograd.backward(loss)
        optimizer.step()
        if schedule is not None:
            schedule.step()
        summed += loss.detach() * len(labels)
        rows += len(labels)
    return float(summed) / rows


def _validate(net: Any, batches: Any) -> dict[str, float]:
    net.eval()
    loss, right, rows = torch.zeros((), device=net.device), torch.zeros((), device=net.device), 0
    with torch.inference_mode():
        for inputs, labels in batches:
            logits = net(inputs)
            loss += functional.cross_entropy(logits, labels) * len(labels)
            right += (logits.argmax(dim=1) == labels).sum()
            rows += len(labels)
    return {"val_loss": float(loss) / rows, "val_acc": float(right) / rows}


def _with_defaults(params_class: type, defaults: Mapping[str, Any]) -> type:
    """The class with other defaults."""
    hints = get_type_hints(params_class)
    body = {"__annotations__": {name: hints[name] for name in defaults}, **defaults}
    found = type("Params", (params_class,), body)
    return dataclass(frozen=True, kw_only=True)(found)
