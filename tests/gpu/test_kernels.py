"""The kernels that make a step fast are the ones that run."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from sweeps.training.distributed import strategy as training_strategy
from tests.gpu.fits import NEEDS_GPU, digits, trained
from trainables import digits_mlp, fashion_cnn, fashion_vit
from trainables._shared.channels_last import Conv2d

pytestmark = [*NEEDS_GPU]


@pytest.mark.parametrize(
    ("attention", "kernel"), [("auto", "attention"), ("flash", "flash"), ("efficient", "efficient")]
)
def test_the_attention_is_computed_by_a_fused_kernel(attention: str, kernel: str) -> None:
    params = fashion_vit.Params(attention=attention)  # type: ignore[arg-type]
    model = fashion_vit.build_model(params).cuda()
    images = torch.randint(0, 255, (64, 1, 28, 28), dtype=torch.uint8, device="cuda")
    with torch.autocast("cuda", torch.float16), profile(activities=[ProfilerActivity.CPU]) as seen:
        model(images).sum().backward()
    ops = {event.key for event in seen.key_averages()}
    chosen = sorted(op for op in ops if op.startswith("aten::_scaled_dot_product"))
    assert any(kernel in op for op in chosen), chosen
    assert not any("math" in op for op in chosen), chosen


def test_convolutions_compute_channels_last_and_the_same() -> None:
    layer = Conv2d(8, 16, 3, padding=1).cuda().half()
    images = torch.randn(32, 8, 28, 28, device="cuda", dtype=torch.half)
    last = layer(images)
    layer.memory_format = torch.contiguous_format
    first = layer(images)
    assert last.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(last, first, rtol=1e-2, atol=1e-2)


def test_channels_last_reaches_the_trained_model() -> None:
    model = fashion_cnn.build_model(fashion_cnn.Params()).cuda()
    seen: list[bool] = []
    for layer in model.modules():
        if isinstance(layer, Conv2d):
            layer.register_forward_hook(
                lambda _layer, _inputs, output: seen.append(
                    output.is_contiguous(memory_format=torch.channels_last)
                )
            )
    model(torch.randint(0, 255, (64, 1, 28, 28), dtype=torch.uint8, device="cuda"))
    assert seen
    assert all(seen)


def test_compiled_training_is_the_same() -> None:
    (_, plain), (_, compiled) = digits(precision="32"), digits(precision="32", compile=True)
    assert compiled[-1].metrics["val_loss"] == pytest.approx(plain[-1].metrics["val_loss"], rel=1e-2)


def test_trials_of_the_same_shapes_are_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.utils import counters

    monkeypatch.setenv(training_strategy.CACHE_VARIABLE, str(tmp_path))
    digits(params=digits_mlp.Params(lr=0.02, batch_size=100), compile=True, max_epochs=1)
    assert (missed := counters["inductor"]["fxgraph_cache_miss"]) > 0
    digits(params=digits_mlp.Params(lr=0.3, momentum=0.5, batch_size=100), compile=True, max_epochs=1)
    assert counters["inductor"]["fxgraph_cache_miss"] == missed
    assert counters["inductor"]["fxgraph_cache_hit"] > 0


@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_compiled_half_precision_trains(precision: str) -> None:
    _, seen = trained(fashion_vit, fashion_vit.Params(rows=3000), precision=precision, compile=True)
    assert seen[-1].score > 0.5


def test_convolutions_take_tensor_cores_in_fp16() -> None:
    layer = Conv2d(64, 64, 3, padding=1).cuda()
    images = torch.randn(32, 64, 28, 28, device="cuda")
    with torch.autocast("cuda", torch.float16), profile(activities=[ProfilerActivity.CUDA]) as seen:
        layer(images)
        torch.cuda.synchronize()
    names = [event.key for event in seen.key_averages()]
    if not names:
        pytest.skip("CUPTI gives no kernels on this machine")
    assert any("fprop" in name or "gemm" in name or "f16" in name or "xmma" in name for name in names), names
