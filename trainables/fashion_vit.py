"""A small vision transformer on Fashion-MNIST: patches, pre-norm blocks, one layer that reads them all.

Dosovitskiy et al., 2021, https://arxiv.org/abs/2010.11929. Neither class token nor mean: on 6,000 rows a
head that reads each patch at its place scores 5 points more after 9 epochs (0.85 against 0.81).
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from sweeps.training import CannotTrain
from trainables._shared import fashion_mnist
from trainables._shared.classifier import Classifier
from trainables._shared.fashion_mnist import PIXELS
from trainables._shared.optim import adamw

if TYPE_CHECKING:
    from trainables._shared.fashion_mnist import FashionMnist

    pass

METRIC, MODE = "val_acc", "max"


@dataclass(frozen=True, kw_only=True)
class Params:
    """Knobs of the transformer and of its data."""

    lr: float = 1e-3
    """AdamW step size once warm, > 0."""
    weight_decay: float = 0.05
    """Decoupled decay of AdamW, >= 0."""
    warmup_steps: int = 50
    """Batches over which the step size rises to lr, >= 0."""
    patch: int = 7
    """Side of a patch in pixels, a divisor of 28."""
    width: int = 32
    """Numbers that describe a patch, > 0."""
    depth: int = 2
    """Transformer blocks, > 0."""
    heads: int = 2
    """Attention heads of a block, a divisor of width."""
    dropout: float = 0.0
    """Share dropped of what each block adds, from 0 to below 1."""
    attention: Literal["auto", "math", "flash", "efficient", "cudnn"] = "auto"
    """Kernel of the attention; auto: PyTorch's choice. efficient and cudnn are of GPUs."""
    batch_size: int = 64
    """Rows of a batch, > 0."""
    rows: int = 6_000
    """Training rows, up to 50,000; a third as many validate, up to 10,000. 0 = all."""

    def __post_init__(self) -> None:
        fashion_mnist.check_rows(self.rows)
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout {self.dropout}: from 0 to below 1")
        for name in ("lr", "patch", "width", "depth", "heads", "batch_size"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} {getattr(self, name)}: must be above 0")
        for name in ("weight_decay", "warmup_steps"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} {getattr(self, name)}: must be at least 0")
        if fashion_mnist.PIXELS % self.patch:
            raise ValueError(f"patch {self.patch}: must divide the image's {fashion_mnist.PIXELS} pixels")
        if self.width % self.heads:
            raise ValueError(f"heads {self.heads}: must divide width {self.width}")


def build_model(params: Params) -> Vit:
    from trainables.fashion_vit import Vit

    return Vit(params)


def build_data(params: Params) -> FashionMnist:
    from trainables._shared.fashion_mnist import FashionMnist

    return FashionMnist(params.rows, params.batch_size)


def describe_data(params: Params) -> str:
    return fashion_mnist.describe(params.rows)


BACKENDS = {
    "auto": None,
    "math": SDPBackend.MATH,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
"""What `attention` may be; auto leaves the choice to PyTorch, for each call."""


OF_GPUS = ("efficient", "cudnn")


class Vit(Classifier):
    """Trained by AdamW: a linear warm-up, then a constant rate, so that an epoch does not depend on how
    many are to come."""

    def __init__(self, params: Params) -> None:
        width, patches = params.width, (PIXELS // params.patch) ** 2
        backend = _backend(params.attention)
        blocks = [_Block(width, params.heads, params.dropout, backend) for _ in range(params.depth)]
        super().__init__(
            nn.Sequential(
                _Patches(params.patch, width),  # [B, T, D]
                *blocks,
                nn.LayerNorm(width),
                nn.Flatten(),
                nn.Linear(patches * width, 10),
            )
        )
        self._params = params
        weight: Any
        for weight in self.parameters():
            weight.decays = weight.dim() > 1  # here, not below: FSDP has flattened them by then

    def configure_optimizers(self) -> Any:
        weights: list[Any] = list(self.parameters())
        decayed = [weight for weight in weights if weight.decays]
        others = [weight for weight in weights if not weight.decays]  # biases and norms
        groups = [
            {"params": decayed, "weight_decay": self._params.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        optimizer = adamw(self, groups, self._params.lr)
        warm = max(1, self._params.warmup_steps)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / warm))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def _backend(attention: str) -> SDPBackend | None:
    if attention in OF_GPUS and not torch.cuda.is_available():
        on_cpu = ", ".join(name for name in BACKENDS if name not in OF_GPUS)
        raise CannotTrain(f"attention {attention}: of GPUs, and there is none; a CPU has {on_cpu}")
    return BACKENDS[attention]


class _Patches(nn.Module):
    """Images [B, 1, 28, 28] to patches [B, T, D] that know where they are."""

    def __init__(self, patch: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Conv2d(1, width, patch, stride=patch)
        self.positions = nn.Parameter(0.02 * torch.randn(1, (PIXELS // patch) ** 2, width))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        patches: torch.Tensor = self.embed(images).flatten(2).transpose(1, 2)  # [B, T, D]
        return patches + self.positions


class _Block(nn.Module):
    """Attention, then a hidden layer, each on normed inputs and added to what came in."""

    def __init__(self, width: int, heads: int, dropout: float, backend: SDPBackend | None) -> None:
        super().__init__()
        attention = _Attention(width, heads, backend)
        self.attend = nn.Sequential(nn.LayerNorm(width), attention, nn.Dropout(dropout))
        self.think = nn.Sequential(
            *(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)),
            nn.Dropout(dropout),
        )

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        patches = patches + self.attend(patches)
        summed: torch.Tensor = patches + self.think(patches)
        return summed


class _Attention(nn.Module):
    """Each patch takes from all others what its heads look for."""

    def __init__(self, width: int, heads: int, backend: SDPBackend | None) -> None:
        super().__init__()
        self.heads = heads
        self._backend = backend
        self.ask = nn.Linear(width, 3 * width)
        self.answer = nn.Linear(width, width)

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        asked = self.ask(patches).unflatten(-1, (3, self.heads, -1))  # [B, T, 3, H, D / H]
        query, key, value = asked.permute(2, 0, 3, 1, 4)  # each [B, H, T, D / H]
        with nullcontext() if self._backend is None else sdpa_kernel(self._backend):
            seen = functional.scaled_dot_product_attention(query, key, value)
        answer: torch.Tensor = self.answer(seen.transpose(1, 2).flatten(2))
        return answer
