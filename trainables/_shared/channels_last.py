"""A convolution in the channels-last memory format."""

from __future__ import annotations

import torch
from torch import nn


class Conv2d(nn.Conv2d):
    """nn.Conv2d with a channels-last output, which the following layers keep.

    With the pooling behind it, that saves a quarter of fashion_cnn's epoch on a CPU
    (benchmarks/inner_loop.py), and tensor cores need it. The weights themselves stay as they are:
    FSDP and ZeRO shard no others ("Only torch.contiguous_format memory_format is currently supported").
    """

    memory_format = torch.channels_last

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        weight = self.weight.to(memory_format=self.memory_format)
        answer: torch.Tensor = self._conv_forward(input, weight, self.bias)
        return answer
