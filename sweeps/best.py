"""The best trial of a sweep, and the model that it trained."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from training import checkpoints, knobs, plugins
from training.single import BEST
from training.values import Knob, UserError, load_yaml
from training.words import place

if TYPE_CHECKING:
    from lightning.pytorch import LightningModule

    from sweeps.record import Record

PARAMS_FILE, WEIGHTS_FILE = "params.yaml", "weights.pt"


@dataclass(frozen=True)
class Best:
    """The best trial, as far as the sweep had come when it was loaded."""

    number: int
    trainable: str
    params: Mapping[str, Knob]
    """All knobs that it trains with, those that stood still too."""
    score: float
    epoch: int
    """The epoch of that score, 1-based."""
    seed: int
    folder: Path = field(repr=False)
    """Of the sweep."""

    def model(self) -> LightningModule:
        """The trained model, with the weights of its best epoch, on the CPU, ready to predict.

        Its weights are those of `best/` (where the top was confirmed, of its best rerun); while the sweep has
        none, those of the trial's newest checkpoint.

        Raises:
            UserError: there are no weights (yet, or any more), or the trainable has changed since.
        """
        weights = self._weights()
        module: Any = plugins.find(plugins.TRAINABLE, self.trainable)
        model: LightningModule = module.build_model(self._params_of(module))
        import torch  # here, not above: who looks at the record alone does without

        try:
            model.load_state_dict(torch.load(weights, weights_only=True, map_location="cpu"))
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise UserError(f"{place(weights)} can't be read: {_first_line(error)}") from None
        except (RuntimeError, TypeError) as error:  # of PyTorch: a torn file, other layers than these
            raise UserError(
                f"{place(weights)} does not fit the model that {self.trainable} builds now, or is damaged: "
                + " ".join(str(error).split())
            ) from None
        return model.eval()

    def _weights(self) -> Path:
        crowned = self.folder / BEST
        if _trial_in(crowned) == self.number and (crowned / WEIGHTS_FILE).is_file():
            return crowned / WEIGHTS_FILE
        newest, faults = checkpoints.newest(checkpoints.folder_of(self.folder, self.number), self.params)
        if newest is None:
            raise UserError(self._no_weights(faults))
        if checkpoints.epoch_of(newest) < self.epoch:
            warnings.warn(
                f"trial {self.number} was best in epoch {self.epoch}; its newest weights are of epoch "
                f"{checkpoints.epoch_of(newest)} or before",
                stacklevel=3,
            )
        return newest / WEIGHTS_FILE

    def _no_weights(self, faults: list[str]) -> str:
        of = _trial_in(self.folder / BEST)
        there = f"{BEST}/ is of trial {of}" if of is not None else f"it has no {BEST}/"
        why = "; ".join(faults) or "no checkpoint of it is there (not written yet, or removed)"
        return f"{place(self.folder)}: no weights of trial {self.number}, the best one: {there}, and {why}"

    def _params_of(self, module: Any) -> Any:
        known = knobs.hints_of(module.Params)
        what = f"{place(self.folder)}: trial {self.number} does not fit {self.trainable} as it is now: "
        faults = [f"{name}: {knobs.unknown(name, known)}" for name in self.params if name not in known]
        if faults:
            raise UserError(what + "; ".join(faults))
        try:
            return module.Params(**self.params)
        except Exception as error:  # whatever the model says of its own knobs
            raise UserError(what + _first_line(error)) from None


def best_of(record: Record) -> Best | None:
    """The best trial that ended well; while none has, the best one of those that train."""
    leader = record.best()
    if leader is None:
        training = [trial for trial in record.live if trial.best_epoch(record.mode) is not None]
        sign = 1 if record.mode == "max" else -1
        leader = max(training, key=lambda trial: sign * (trial.best_score(record.mode) or 0.0), default=None)
    if leader is None:
        return None
    score, epoch = leader.best_score(record.mode), leader.best_epoch(record.mode)
    assert score is not None
    assert epoch is not None
    params = {**leader.fixed, **leader.params}
    return Best(leader.number, leader.trainable, params, score, epoch, leader.seed, record.folder)


def _trial_in(folder: Path) -> int | None:
    """Whose weights `best/` holds."""
    try:
        return int(load_yaml((folder / PARAMS_FILE).read_text())["trial"])
    except (OSError, yaml.YAMLError, TypeError, KeyError, ValueError):
        return None


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
