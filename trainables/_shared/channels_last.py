"""A convolution that computes with the channels of a pixel beside one another."""

from __future__ import annotations

import torch
from torch import nn


class Conv2d(nn.Conv2d):
    """nn.Conv2d, whose answer lies channels last, as do those of the layers that follow.

    With the pooling behind it that takes a quarter off fashion_cnn's epoch on a CPU
    (benchmarks/inner_loop.py), and it is what tensor cores ask for. The weights themselves stay as they are:
    FSDP and ZeRO shard no others ("Only torch.contiguous_format memory_format is currently supported").
    """

    memory_format = torch.channels_last

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        weight = self.weight.to(memory_format=self.memory_format)
        answer: torch.Tensor = self._conv_forward(input, weight, self.bias)
        return answer
