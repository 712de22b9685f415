"""The network of fashion_vit.

Shapes: B images of a batch, T patches of an image, D `width`, H `heads`.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from sweeps.training import CannotTrain
from trainables._shared.classifier import Classifier
from trainables._shared.fashion_mnist import PIXELS
from trainables._shared.optim import adamw

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

    def __init__(self, params: Any) -> None:
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
