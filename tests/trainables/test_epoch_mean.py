"""Metrics that the shipped models sum themselves."""

from __future__ import annotations

import pytest
import torch

from trainables._shared.classifier import Classifier
from trainables._shared.epoch_mean import _Mean


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("value", [0.5, 2.25])
def test_the_mean_over_many_rows_is_right_in_what_numbers_the_loss_may_be(
    value: float, dtype: torch.dtype
) -> None:
    mean = _Mean()
    for _ in range(782):  # 50,048 rows: a sum in fp16 would be infinite, in bf16 a third of this
        mean.add(torch.tensor(value, dtype=dtype), 64)
    assert float(mean.value) == pytest.approx(value, rel=1e-4)


def test_batches_count_by_their_rows() -> None:
    mean = _Mean()
    mean.add(torch.tensor(1.0), 3)
    mean.add(torch.tensor(0.0), 1)
    assert float(mean.value) == 0.75


def test_bytes_stand_for_0_to_1() -> None:
    model = Classifier(torch.nn.Flatten())
    images = torch.tensor([[0, 51, 255]], dtype=torch.uint8)
    model.net = torch.nn.Linear(3, 3, bias=False)
    torch.nn.init.eye_(model.net.weight)
    torch.testing.assert_close(model(images), torch.tensor([[0.0, 0.2, 1.0]]))
    torch.testing.assert_close(model(images / 255), model(images))
