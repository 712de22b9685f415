"""Each switch of the inner loop by itself: `python -m benchmarks.inner_loop`

Epochs of the shipped models by our Fit, one thread, one switch turned against how they are
shipped. Also the ways that they are shipped with stand among the arms: how far such an arm is from 1 is how
far to trust the others. A default is on where the way without it takes longer by more than that.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks import _measure
from benchmarks._measure import Goal
from sweeps.common.errors import reason_of

EPOCHS = {"digits_mlp": 60, "fashion_cnn": 4, "fashion_vit": 4}
"""Trainable to epochs of a run, one more than count."""
SHIPPED = "as shipped"

Run = dict[str, Any]
"""model, arm, repeat, epoch_s, epoch_cpu_s (medians over its epochs), first_epoch_s, busy_before."""


@dataclass(frozen=True)
class Switch:
    """One way to train."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of `_epochs.by_fit`."""
    models: Sequence[str] = tuple(EPOCHS)
    needs_cuda: bool = False


def use_optimizer(kind: str, model: Any) -> None:
    """plain, foreach or fused."""
    configure = model.configure_optimizers

    def configured() -> Any:
        made = configure()
        for group in (made["optimizer"] if isinstance(made, dict) else made).param_groups:
            group.update(fused=kind == "fused", foreach=kind == "foreach")
        return made

    model.configure_optimizers = configured


def lay_out(memory_format: str, model: Any) -> None:
    """Have the convolutions compute in this format of PyTorch's."""
    import torch

    from trainables._shared.channels_last import Conv2d

    for layer in model.modules():
        if isinstance(layer, Conv2d):
            layer.memory_format = getattr(torch, memory_format)


def compile_as_flagged(model: Any, mode: str | None = None) -> None:
    """As `--compile` does, or in this mode of `torch.compile`."""
    from sweeps.training.distributed import strategy as training_strategy

    training_strategy.compile_model(model, mode)


def do_not_pin(data: Any) -> None:
    """Have batches in memory that the GPU can't fetch by itself."""
    load = data.train_dataloader

    def loaded() -> Any:
        loader = load()
        loader.pin_memory = False
        return loader

    data.train_dataloader = loaded


ATTENTION = {name: Switch({"attention": name}, ("fashion_vit",)) for name in ("math", "flash")}
SWITCHES = {
    SHIPPED: Switch(),
    **{
        f"optimizer {kind}": Switch({"model": partial(use_optimizer, kind)})
        for kind in ("plain", "foreach", "fused")
    },
    "channels first": Switch({"model": partial(lay_out, "contiguous_format")}, ("fashion_cnn",)),
    "channels last": Switch({"model": partial(lay_out, "channels_last")}, ("fashion_cnn",)),
    **{f"attention {name}": switch for name, switch in ATTENTION.items()},
    "attention efficient": Switch({"attention": "efficient"}, ("fashion_vit",), needs_cuda=True),
    "attention cudnn": Switch({"attention": "cudnn"}, ("fashion_vit",), needs_cuda=True),
    "bf16-mixed": Switch({"precision": "bf16-mixed"}),
    "16-mixed": Switch({"precision": "16-mixed"}, needs_cuda=True),
    "not pinned": Switch({"data": do_not_pin}, needs_cuda=True),
    "compiled": Switch({"model": compile_as_flagged}, ("fashion_cnn", "fashion_vit")),
    "compiled, CUDA graphs": Switch(
        {"model": partial(compile_as_flagged, mode="reduce-overhead")}, needs_cuda=True
    ),
}
DEFAULTS = (
    ("fashion_cnn", "channels first"),
    ("fashion_vit", "optimizer plain"),
    ("fashion_vit", "attention math"),
)
"""Trainable and the way without what it is shipped with."""


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)

    from benchmarks import _epochs  # here: PyTorch takes seconds, and --help needs none

    device = _epochs.device_name()
    runs: list[Run] = []
    skipped: dict[str, str] = {}
    for repeat in range(asked.repeats):
        for model in asked.models:
            arms = [name for name in _arms(model, asked.arms) if name not in skipped]
            for arm in _measure.in_turn(arms, repeat):
                runs += _run(model, arm, repeat, asked.epochs or EPOCHS[model], skipped)
    medians = summary(runs)
    print(describe(medians), flush=True)
    for arm, reason in skipped.items():
        print(f"{arm}: not measured: {reason}", flush=True)
    content = {"device": device, "runs": runs, "medians": medians, "skipped": skipped}
    _measure.write("inner_loop", content, goals(medians))
    return 0


def summary(runs: Sequence[Run]) -> list[Run]:
    """Medians over the repeats; ratios to how it is shipped, each within its repeat."""
    rows = []
    for model, arm in dict.fromkeys((run["model"], run["arm"]) for run in runs):
        mine, shipped = _of(runs, model, arm), _of(runs, model, SHIPPED)
        row: Run = {"model": model, "arm": arm}
        for key in ("epoch_s", "epoch_cpu_s"):
            ours, theirs = [run[key] for run in mine], [run[key] for run in shipped]
            row[key] = _measure.median(ours)
            row[f"{key}_to_shipped"] = _measure.median(_measure.ratios(ours, theirs))
        row["first_epoch_s"] = _measure.median([run["first_epoch_s"] for run in mine])
        rows.append(row)
    return rows


def describe(medians: Sequence[Run]) -> str:
    titles = ("model, way", "s an epoch", "to shipped", "CPU s an epoch", "to shipped", "first epoch s")
    rows = [
        (
            f"{row['model']}  {row['arm']}",
            _measure.number(row["epoch_s"], 3),
            _measure.number(row["epoch_s_to_shipped"]),
            _measure.number(row["epoch_cpu_s"], 3),
            _measure.number(row["epoch_cpu_s_to_shipped"]),
            _measure.number(row["first_epoch_s"]),
        )
        for row in medians
    ]
    return _measure.table(titles, rows)


def goals(medians: Sequence[Run]) -> list[Goal]:
    """That what is on by default is worth it: without it an epoch takes longer."""
    found = []
    for model, without in DEFAULTS:
        rows = _of(medians, model, without)
        value = rows[0]["epoch_s_to_shipped"] if rows else None
        found.append(Goal(f"{model}_{without.replace(' ', '_')}", value, ">=", 1.02))
    return found


def _run(model: str, arm: str, repeat: int, epochs: int, skipped: dict[str, str]) -> list[Run]:
    import torch

    from benchmarks import _epochs

    switch = SWITCHES[arm]
    if switch.needs_cuda and not torch.cuda.is_available():
        skipped[arm] = "no CUDA here"
        return []
    busy, clock = _measure.busy_cores(0.3), _epochs.Clock()
    try:
        _epochs.by_fit(model, epochs, clock, **switch.settings)
    except Exception as error:
        if not arm.startswith("compiled"):
            raise
        skipped[arm] = reason_of(error)  # no compiler, mostly
        return []
    seconds, cpu_seconds = zip(*clock.epochs(), strict=True)
    run = {
        "model": model, "arm": arm, "repeat": repeat, "epoch_s": _measure.median(seconds[1:]),
        "epoch_cpu_s": _measure.median(cpu_seconds[1:]), "first_epoch_s": seconds[0],
        "busy_before": round(busy, 2),
    }  # fmt: skip
    print(
        f"{model}, repeat {repeat + 1}, {arm}: {run['epoch_s']:.3f} s, {run['epoch_cpu_s']:.3f} s of CPU "
        f"an epoch ({busy:.1f} cores busy before)",
        flush=True,
    )
    return [run]


def _arms(model: str, asked: Sequence[str]) -> list[str]:
    """Those of a model; how it is shipped always, the others are compared with it."""
    return [
        name
        for name, switch in SWITCHES.items()
        if model in switch.models and (name in asked or name == SHIPPED)
    ]


def _of(runs: Sequence[Run], model: str, arm: str) -> list[Run]:
    return [run for run in runs if (run["model"], run["arm"]) == (model, arm)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.inner_loop",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--models", nargs="+", choices=list(EPOCHS), default=list(EPOCHS))
    parser.add_argument("--arms", nargs="+", choices=list(SWITCHES), default=list(SWITCHES))
    parser.add_argument("--epochs", type=int, help="of each run, one more than count (default: by the model)")
    parser.add_argument("--repeats", type=int, default=3)
    return parser


if __name__ == "__main__":
    sys.exit(main())
