"""What `python -m sweeps.fit` costs beside a plain PyTorch loop: `python -m benchmarks.fit_overhead`

The same model, optimizer, loader and seeds, the same metrics averaged over the rows of each epoch, one
thread; on the first GPU where there is one, and each epoch's end waits for it. An epoch counts from its start
to the start of the next, so with validation and with what is done between two of them; the first of a run is
left out. The goals are those for a CPU.

  plain    a loop in PyTorch, its sums on the device, nothing kept
  fit      our Fit: costs measured, metrics logged at the end of an epoch, best weights kept
  logged   the same, but the model calls self.log in each step, as most do
  command  all of `python -m sweeps.fit` on a terminal: words, bar, files, checkpoints
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks import _measure
from benchmarks._measure import Goal

ARMS = ("plain", "fit", "logged", "command")
EPOCHS = {"digits_mlp": 60, "fashion_cnn": 4, "fashion_vit": 4}
"""Trainable to epochs of a run, one more than count."""

Run = dict[str, Any]
"""model, arm, repeat, steps, epoch_s, epoch_cpu_s (medians over its epochs), busy_before."""


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)

    from benchmarks import _epochs  # here: PyTorch takes seconds, and --help needs none

    runs = [
        run
        for repeat in range(asked.repeats)
        for model in asked.models
        for run in one_round(model, repeat, asked.epochs or EPOCHS[model])
    ]
    medians = summary(runs)
    print(describe(medians), flush=True)
    content = {"device": _epochs.device_name(), "runs": runs, "medians": medians}
    _measure.write("fit_overhead", content, goals(medians))
    return 0


def one_round(model: str, repeat: int, epochs: int) -> list[Run]:
    """Every arm once."""
    from benchmarks import _epochs

    runs = []
    for arm in _measure.in_turn(ARMS, repeat):
        busy, clock = _measure.busy_cores(0.3), _epochs.Clock()
        if arm == "plain":
            _epochs.by_plain_loop(model, epochs, clock)
        elif arm == "command":
            _epochs.by_command(model, epochs, clock)
        else:
            _epochs.by_fit(model, epochs, clock, model=log_each_step if arm == "logged" else None)
        seconds, cpu_seconds = zip(*clock.epochs()[1:], strict=True)
        run = {
            "model": model, "arm": arm, "repeat": repeat, "steps": _epochs.steps(model),
            "epoch_s": _measure.median(seconds), "epoch_cpu_s": _measure.median(cpu_seconds),
            "busy_before": round(busy, 2),
        }  # fmt: skip
        runs.append(run)
        print(
            f"{model}, repeat {repeat + 1}, {arm}: {run['epoch_s']:.3f} s, {run['epoch_cpu_s']:.3f} s of CPU "
            f"an epoch ({busy:.1f} cores busy before)",
            flush=True,
        )
    return runs


def log_each_step(model: Any) -> None:
    """Let a classifier hand each batch's metrics to Lightning, which then averages them."""

    def log(name: str, value: Any, rows: int) -> None:
        model.log(name, value, on_step=False, on_epoch=True, batch_size=rows)

    model._add = log


def summary(runs: Sequence[Run]) -> list[Run]:
    """Medians over the repeats; ratios to the plain loop, each within its repeat."""
    rows = []
    for model, arm in dict.fromkeys((run["model"], run["arm"]) for run in runs):
        mine, plain = _of(runs, model, arm), _of(runs, model, "plain")
        row = {"model": model, "arm": arm}
        for key in ("epoch_s", "epoch_cpu_s"):
            ours, theirs = [run[key] for run in mine], [run[key] for run in plain]
            more_ms = [1000 * (a - b) / mine[0]["steps"] for a, b in zip(ours, theirs, strict=True)]
            row |= {
                key: _measure.median(ours),
                f"{key}_to_plain": _measure.median(_measure.ratios(ours, theirs)),
                f"{key}_more_ms_per_step": _measure.median(more_ms),
            }
        rows.append(row)
    return rows


def describe(medians: Sequence[Run]) -> str:
    titles = (
        "model, way", "s an epoch", "to plain", "ms more a step", "CPU s an epoch", "to plain",
        "ms more a step",
    )  # fmt: skip
    rows = [
        (
            f"{row['model']}  {row['arm']}",
            *(
                _measure.number(row[key + suffix], digits)
                for key in ("epoch_s", "epoch_cpu_s")
                for suffix, digits in (("", 3), ("_to_plain", 2), ("_more_ms_per_step", 2))
            ),
        )
        for row in medians
    ]
    return _measure.table(titles, rows)


def goals(medians: Sequence[Run]) -> list[Goal]:
    """Of what the command runs."""
    found = []
    for model, bound in (("fashion_cnn", 1.05), ("digits_mlp", 1.5)):
        command = _of(medians, model, "command")
        value = command[0]["epoch_s_to_plain"] if command else None
        found.append(Goal(f"{model}_to_plain", value, "<=", bound))
    return found


def _of(runs: Sequence[Run], model: str, arm: str) -> list[Run]:
    return [run for run in runs if (run["model"], run["arm"]) == (model, arm)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fit_overhead",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--models", nargs="+", choices=list(EPOCHS), default=list(EPOCHS))
    parser.add_argument("--epochs", type=int, help="of each run, one more than count (default: by the model)")
    parser.add_argument("--repeats", type=int, default=5)
    return parser


if __name__ == "__main__":
    sys.exit(main())
