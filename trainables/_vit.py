"""The network of fashion_vit.

Shapes: B images of a batch, T patches of an image, D `width`, H `heads`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from trainables._classifier import Classifier
from trainables._fashion_mnist import PIXELS

if TYPE_CHECKING:
    from trainables.fashion_vit import Params


class Vit(Classifier):
    """Trained by AdamW: a linear warm-up, then a constant rate, so that an epoch does not depend on how
    many are to come."""

    def __init__(self, params: Params) -> None:
        width, patches = params.width, (PIXELS // params.patch) ** 2
        blocks = [_Block(width, params.heads, params.dropout) for _ in range(params.depth)]
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

    def configure_optimizers(self) -> Any:
        decayed = [weight for weight in self.parameters() if weight.dim() > 1]
        others = [weight for weight in self.parameters() if weight.dim() <= 1]  # biases and norms
        groups = [
            {"params": decayed, "weight_decay": self._params.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        optimizer = torch.optim.AdamW(groups, lr=self._params.lr)
        warm = max(1, self._params.warmup_steps)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / warm))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


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

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attend = nn.Sequential(nn.LayerNorm(width), _Attention(width, heads), nn.Dropout(dropout))
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

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ask = nn.Linear(width, 3 * width)
        self.answer = nn.Linear(width, width)

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        asked = self.ask(patches).unflatten(-1, (3, self.heads, -1))  # [B, T, 3, H, D / H]
        query, key, value = asked.permute(2, 0, 3, 1, 4)  # each [B, H, T, D / H]
        seen = functional.scaled_dot_product_attention(query, key, value)
        answer: torch.Tensor = self.answer(seen.transpose(1, 2).flatten(2))
        return answer
