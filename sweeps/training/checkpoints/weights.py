"""Whole fp32 weights of a model, whatever strategy its workers train with, and what its hooks keep beside."""

from __future__ import annotations

import copy
import io
import math
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import lightning
import lightning.pytorch as pl
import torch
from lightning.pytorch.strategies import DeepSpeedStrategy, FSDPStrategy
from lightning.pytorch.utilities.model_helpers import is_overridden
from torch import nn
from torch.distributed.fsdp import FullStateDictConfig, StateDictType
from torch.distributed.fsdp import FullyShardedDataParallel as Fsdp
from torch.nn.parameter import UninitializedParameter
from torch.utils.hooks import RemovableHandle

from sweeps.common import atomic_io
from sweeps.common.errors import CannotTrain
from sweeps.kinds import params_file
from sweeps.kinds.params_file import HOOKS_FILE, WEIGHTS_FILE
from sweeps.training.config import FitConfig


@dataclass(frozen=True)
class ModelState:
    """What a model needs to score again as it has scored."""

    weights: dict[str, Any] = field(default_factory=dict)
    """Its `state_dict()` as on a single device, in fp32 on the CPU; {} before any, and on FSDP's other
    workers."""
    added: dict[str, Any] = field(default_factory=dict)
    """For hooks that load: what `on_save_checkpoint` of the model, and `state_dict` of its data module, add
    to a checkpoint, with its epoch, its step and the model's `hparams`."""

    @classmethod
    def read(cls, folder: Path) -> ModelState:
        """The state in a folder.

        Raises:
            OSError, EOFError, pickle.UnpicklingError, RuntimeError: it is not there, or torn.
        """
        try:
            weights = torch.load(folder / WEIGHTS_FILE, weights_only=True, map_location="cpu")
        except pickle.UnpicklingError:  # the model's own `state_dict` holds other objects, too
            weights = torch.load(folder / WEIGHTS_FILE, weights_only=False, map_location="cpu")
        if not (folder / HOOKS_FILE).exists():
            return cls(weights)
        return cls(weights, torch.load(folder / HOOKS_FILE, weights_only=False, map_location="cpu"))

    def write(self, folder: Path) -> None:
        """Write it into a folder."""
        torch.save(self.weights, folder / WEIGHTS_FILE)
        if self.added:
            torch.save(self.added, folder / HOOKS_FILE)

    def checkpoint(self) -> dict[str, Any]:
        """The state as a checkpoint of Lightning, for its hooks."""
        about = {"pytorch-lightning_version": lightning.__version__, "epoch": 0, "global_step": 0}
        return {**about, **self.added, "state_dict": dict(self.weights)}

    @property
    def size_bytes(self) -> int:
        """Of the weights."""
        return sum(weight.nbytes for weight in _tensors(self.weights))


class BestWeights(pl.Callback):
    """Keeps the weights of the best epoch in CPU memory, in fp32, as they were validated.

    It must be the first callback: a later one may have swapped averaged weights in for the validation, and
    takes them out at its end.
    """

    def __init__(self, config: FitConfig, score: float = math.nan) -> None:
        self._config = config
        self.score, self.kept = score, ModelState()
        """Of the best epoch."""
        self._scored: dict[str, Any] | None = None
        """The weights that were validated in this epoch."""
        self._hook: RemovableHandle | None = None
        self._used: tuple[torch.Tensor, torch.Tensor] | None = None
        """A weight of the model, and a copy of it as the first batch was validated with it."""

    def on_validation_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int, *_: Any
    ) -> None:
        if batch_idx or _is_sharded(trainer) or self._config.compile:
            return
        # An embedding with a largest norm scales its rows itself, whenever it is called.
        steady = (layer for layer in pl_module.modules() if getattr(layer, "max_norm", None) is None)
        own = ((layer, next(layer.parameters(recurse=False), None)) for layer in steady)
        layer, weight = next((each for each in own if each[1] is not None), (None, None))
        if layer is not None and weight is not None and not isinstance(weight, UninitializedParameter):
            self._hook = layer.register_forward_pre_hook(partial(self._note, weight))

    def on_validation_batch_end(self, *_: Any) -> None:
        if self._hook is None:
            return
        self._hook.remove()
        used, self._hook, self._used = self._used, None, None
        if used is not None and not _are_equal(*used):
            raise CannotTrain(
                "validation_step scores other weights than the model has behind it, so that others would be "
                "kept than those that were scored. Swap averaged weights in on_validation_start, and out in "
                "on_validation_end, as Lightning's EMAWeightAveraging does"
            )

    def _note(self, weight: torch.Tensor, *_: Any) -> None:
        self._used = self._used or (weight, weight.detach().clone())

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._scored = whole(trainer)

    def keep_if_best(self, trainer: pl.Trainer, score: float) -> None:
        """Keep the weights of an epoch with this score if it is the best. All workers call it together."""
        scored, self._scored = self._scored, None
        if self._config.objective.is_better(score, self.score):
            self.score = score
            self.kept = with_hooks(trainer, whole(trainer) if scored is None else scored)


def keep(folder: Path, best: ModelState, about: str) -> None:
    """Write the best epoch's weights and params.yaml into a new folder, atomically."""
    with atomic_io.atomic_write(folder) as part:
        part.mkdir()
        best.write(part)
        (part / params_file.FILE).write_text(about, encoding="utf-8")


# A validation runs in inference mode, whose tensors can't be trained on later.
@torch.inference_mode(False)
@torch.no_grad()
def whole(trainer: pl.Trainer) -> dict[str, Any]:
    """The model's `state_dict()` as on a single device, in fp32 on the CPU; {} on FSDP's other workers. All
    workers must call it together.

    Raises:
        CannotTrain: the model's own `state_dict` has other weights than the model.
    """
    strategy, model = trainer.strategy, trainer.lightning_module
    if isinstance(strategy, FSDPStrategy):
        return _of_fsdp(strategy)
    state = {name: _on_cpu(value) for name, value in model.state_dict().items()}
    if isinstance(strategy, DeepSpeedStrategy):
        state.update(_of_zero(model, state))
    elif type(model).state_dict is not nn.Module.state_dict:
        own = dict(model.named_parameters())
        _refuse_others("state_dict", {name: state[name] for name in own.keys() & state.keys()}, own)
    return state


def with_hooks(trainer: pl.Trainer, weights: dict[str, Any]) -> ModelState:
    """Whole weights with what Lightning would save beside them. All workers must call it together.

    Raises:
        CannotTrain: `on_save_checkpoint` replaces weights.
        Exception: of the hooks, which are the user's code.
    """
    model, data = trainer.lightning_module, trainer.datamodule  # type: ignore[attr-defined]  # set undeclared
    of_data = {type(data).__qualname__: state} if data is not None and (state := data.state_dict()) else {}
    if not of_data and not any(is_overridden(f"on_{each}_checkpoint", model) for each in ("save", "load")):
        return ModelState(weights)
    given = {"epoch": trainer.current_epoch, "global_step": trainer.global_step, **of_data}
    if model.hparams:
        given[model.CHECKPOINT_HYPER_PARAMS_KEY] = dict(model.hparams)
    of_training: dict[str, Any] = {"callbacks": {}, "loops": {}, "optimizer_states": [], "lr_schedulers": []}
    saved = of_training | ModelState(_on_cpu(weights)).checkpoint()
    not_kept = set(saved) - set(given)
    saved |= given
    model.on_save_checkpoint(saved)
    kept = saved["state_dict"]
    _refuse_others("on_save_checkpoint", kept, weights)
    if not weights:
        return ModelState()
    content = io.BytesIO()  # as a file has it: detached, and independent of what the model changes later
    torch.save({name: value for name, value in saved.items() if name not in not_kept}, content)
    content.seek(0)
    return ModelState(kept, torch.load(content, weights_only=False, map_location="cpu"))


def _refuse_others(hook: str, kept: Mapping[str, Any], scored: Mapping[str, Any]) -> None:
    """Refuse a hook that puts other weights into a checkpoint than those that were scored."""
    for name, weight in scored.items():
        other = kept.get(name, weight)
        if not isinstance(weight, torch.Tensor):
            continue
        is_same = isinstance(other, torch.Tensor) and _are_equal(other.cpu(), weight.cpu().to(other.dtype))
        if not is_same:
            raise CannotTrain(
                f"{hook} replaces weights ({name}), so that others would be kept than those that were "
                "validated. Swap them in for the validation, as Lightning's EMAWeightAveraging does"
            )


def _are_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors hold the same; those of a training that has diverged hold nan."""
    if torch.equal(one, other):
        return True
    return one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())


def _on_cpu(value: Any) -> Any:
    """A copy of what a `state_dict` holds: tensors, also in dicts and lists, and other objects."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, Mapping):
        return {name: _on_cpu(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_on_cpu(each) for each in value]
    return copy.deepcopy(value)


def checkpoint_bytes(trainer: pl.Trainer, best: ModelState) -> int:
    """Bytes of a checkpoint, about: the last and the best weights, and the state of the optimizers, of all
    workers. What hooks of the user add is not counted.
    """
    state = sum(each.nbytes for optimizer in trainer.optimizers for each in _tensors(optimizer.state))
    return 2 * best.size_bytes + state * (trainer.world_size if _is_sharded(trainer) else 1)


def _is_sharded(trainer: pl.Trainer) -> bool:
    return isinstance(trainer.strategy, FSDPStrategy | DeepSpeedStrategy)


def _tensors(state: Any) -> Iterator[torch.Tensor]:
    """All of a nested state."""
    if isinstance(state, torch.Tensor):
        yield state
    elif isinstance(state, Mapping | list | tuple):
        for each in state.values() if isinstance(state, Mapping) else state:
            yield from _tensors(each)


def _of_fsdp(strategy: FSDPStrategy) -> dict[str, torch.Tensor]:
    assert isinstance(strategy.model, nn.Module)
    # On a CPU, "offloaded" weights would be views of memory that FSDP frees.
    settings = FullStateDictConfig(offload_to_cpu=strategy.root_device.type != "cpu", rank0_only=True)
    with Fsdp.state_dict_type(strategy.model, StateDictType.FULL_STATE_DICT, settings):
        return {name: value.detach().clone() for name, value in strategy.model.state_dict().items()}


def _of_zero(model: nn.Module, held: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The optimizer's fp32 weights of those that the model keeps: its own have half precision, and with stage
    3 are shards."""
    import deepspeed
    from deepspeed.utils import safe_get_full_fp32_param

    weights = {}
    for name, weight in model.named_parameters(remove_duplicate=False):
        if name not in held:
            continue
        whole = safe_get_full_fp32_param(weight) if weight.requires_grad else None
        if whole is None:  # it is frozen
            with deepspeed.zero.GatheredParameters([weight]):
                whole = weight.detach().float()
        elif whole.shape == weight.shape and not torch.equal(whole.to(weight), weight):
            whole = weight.detach().float()  # not the optimizer's, but an average that is swapped in
        weights[name] = whole.detach().to("cpu", copy=True)
    return weights
