"""How a trial runs (FitConfig), and what a trainable is (the contract, as a Protocol)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from sweeps.common.objective import Mode, Objective

if TYPE_CHECKING:
    from lightning.pytorch import LightningDataModule, LightningModule

Precision = Literal["auto", "32", "16-mixed", "bf16-mixed"]
Strategy = Literal[
    "auto",
    "single",
    "ddp",
    "fsdp",
    "fsdp_full",
    "deepspeed_stage_1",
    "deepspeed_stage_2",
    "deepspeed_stage_2_offload",
    "deepspeed_stage_3",
    "deepspeed_stage_3_offload",
]

MAX_BAD_PCT = 10.0
"""Of raw files, that a preparation may leave out as corrupt."""


class Trainable(Protocol):
    """A file of `trainables/`: METRIC, MODE, Params, build_model, build_data."""

    METRIC: str
    MODE: Mode
    Params: Callable[..., Any]
    build_model: Callable[[Any], LightningModule]
    build_data: Callable[..., LightningDataModule]
    """Of params and, where the trainable defines `prepare`, the folder of the prepared data."""


@dataclass(frozen=True, kw_only=True)
class FitConfig:
    """How one trial runs; what it trains is Params."""

    max_epochs: int
    """Epochs to train, > 0."""
    metric: str
    """Logged metric by which the best epoch is chosen."""
    mode: Mode
    """Whether a small or a large metric is good."""
    precision: Precision = "auto"
    """Arithmetic; auto: fp16 on a GPU, fp32 on a CPU (which has no fast fp16)."""
    strategy: Strategy = "auto"
    """How workers share the model; auto: single where one device holds it, else ZeRO stage 2."""
    devices: int = 1
    """GPUs of a PC, or processes on a PC without one, > 0."""
    num_nodes: int = 1
    """PCs that train together, > 0."""
    micro_batch: int | None = None
    """Rows that a worker computes at once; a batch is made up of as many as it takes (default: its share
    of the batch in one piece)."""
    compile: bool = False
    """Whether torch.compile makes the model's steps into larger operations."""
    steps_per_epoch: int | None = None
    """Steps of an epoch, and batches of validation, at most (default: all)."""
    seed: int = 0
    """Seed of weights, shuffling and augmentation."""
    threads: int = 1
    """PyTorch threads of this process, > 0."""

    @property
    def objective(self) -> Objective:
        """What the best epoch is best by."""
        return Objective(self.metric, self.mode)

    @property
    def workers(self) -> int:
        """Processes that train together."""
        return self.devices * self.num_nodes

    def settings(self) -> dict[str, Any]:
        """What trains a run again, for params.yaml; one worker is where its devices are."""
        alone = {"devices", "num_nodes"} if self.workers == 1 else set()
        return {name: value for name, value in dataclasses.asdict(self).items() if name not in alone}


FIT_SETTINGS = tuple(each.name for each in dataclasses.fields(FitConfig))
"""Names that `fit` of a params.yaml may hold."""
