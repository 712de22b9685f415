"""Which search finds more in the same epochs: `python -m benchmarks.search`

Each arm searches the grid of `benchmarks.curves`, 288 points of fashion_cnn, whose learning curves are
replayed, so that a search of 1,000 epochs takes seconds. Every hyperparameter is the position of its value:
all searchers know the order of the values, and none the distances. Ours: random and tpe, each with and
without asha, and bohb; rungs at 3, 9 and 27 epochs. Ray's own, as shipped: OptunaSearch with ASHAScheduler,
whose first rung is 1, and the same with that of ours; TuneBOHB with HyperBandForBOHB as in Ray's example,
whose first rung is 1 too, so bohb is also run with that.

Regret: how many points of accuracy the point that a search would hand over (the best score of any epoch so
far) is behind the best of the table, both by their quality: the best epoch of 27, the mean over both seeds
of the table. (By the last epoch alone noise decides: whoever has seen all curves of one seed to their end is
then still 0.5 to 2.4 points behind; by the best epoch 0 to 0.9.) A repeat is a seed of all searches; one seed
of the curves is replayed in the even ones, the other in the odd ones.

The real searchers and schedulers run in Tune's loop with a clock of its own (`_clock.py`): results come in
the order that the real seconds give, so the same seeds give the same figures on any machine. With --by-tune
Tune itself runs them, trials in processes that sleep; one at a time finds the same, several come as the
machine has it.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import _measure
from benchmarks._measure import Goal

AT = (250, 500, 1_000)
"""Epochs at which arms are compared."""
RIVALS = {
    "tpe+asha": ("Ray OptunaSearch + ASHA, grace 1", "Ray OptunaSearch + ASHA, grace 3"),
    "bohb": ("Ray TuneBOHB",),
    "bohb, grace 1": ("Ray TuneBOHB",),
}
"""Ours to Ray's of the same kind; of several the better one counts."""

Run = dict[str, Any]
"""arm, repeat, slots, epochs, trials, points (different ones), regrets (after every 10 epochs)."""
Curves = Mapping[int, Mapping[str, Sequence[Sequence[float]]]]
"""Slots to arm to the regrets of each repeat."""


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    _quiet()
    runs = run_all(asked)
    by_slots = together(runs)
    rows = summary(by_slots)
    print(describe(rows), flush=True)
    pairs = differences(by_slots)
    print(describe_pairs(pairs), flush=True)
    content = {"by_tune": asked.by_tune, "summary": rows, "differences": pairs, "runs": runs}
    _measure.write("search", content, goals(pairs))
    from benchmarks import _regret

    _regret.draw(by_slots, _measure.RESULTS / "search.png")
    return 0


def run_all(asked: argparse.Namespace) -> list[Run]:
    """Every arm with every number of slots, repeat by repeat."""
    import contextlib

    from benchmarks import _regret, _searches, curves

    table = curves.load()
    arms = asked.arms or [*_searches.OURS, *_searches.RAYS]
    for arm in arms:
        if arm not in {**_searches.OURS, **_searches.RAYS}:
            raise SystemExit(f"--arms {arm}: one of {', '.join([*_searches.OURS, *_searches.RAYS])}")
    runs: list[Run] = []
    for slots in asked.slots:
        with _searches.connected(slots) if asked.by_tune else contextlib.nullcontext():
            for repeat in range(asked.repeats):
                for arm in arms:
                    one = _searches.Asked(arm, repeat, slots, asked.budget, asked.pace)
                    found = _searches.search(one, by_tune=asked.by_tune)
                    curve = _regret.regrets(found, table.qualities, asked.budget)
                    runs.append(
                        {"arm": arm, "repeat": repeat, "slots": slots, "epochs": len(found),
                         "trials": len({epoch.trial for epoch in found}),
                         "points": len({epoch.place for epoch in found}),
                         "regrets": [round(value, 4) for value in curve]}
                    )  # fmt: skip
                    print(f"{_words(runs[-1])} at the end", flush=True)
    return runs


def together(runs: Sequence[Run]) -> Curves:
    """The regrets, by slots and arm, in the order of the repeats."""
    found: dict[int, dict[str, list[Sequence[float]]]] = {}
    for run in runs:
        found.setdefault(run["slots"], {}).setdefault(run["arm"], []).append(run["regrets"])
    return found


def summary(by_slots: Curves) -> list[Run]:
    """Mean regret and its interval, at each number of epochs that was reached."""
    from benchmarks import _regret

    return [
        {"slots": slots, "arm": arm, "epochs": epochs, **_interval(_regret.mean(_at(repeats, epochs)))}
        for slots, arms in by_slots.items()
        for arm, repeats in arms.items()
        for epochs in _reached(repeats)
    ]


def differences(by_slots: Curves) -> list[Run]:
    """Ours less the better one of Ray's of the same kind, within each repeat: below 0 ours is ahead."""
    from benchmarks import _regret

    found = []
    for slots, arms in by_slots.items():
        for ours, rivals in RIVALS.items():
            present = [rival for rival in rivals if rival in arms]
            if ours not in arms or not present:
                continue
            for epochs in _reached(arms[ours]):
                rays = {rival: _at(arms[rival], epochs) for rival in present}
                best = min(present, key=lambda rival: (_regret.mean(rays[rival])[0], rival))
                paired = [a - b for a, b in zip(_at(arms[ours], epochs), rays[best], strict=True)]
                interval = _interval(_regret.mean(paired))
                found.append({"slots": slots, "ours": ours, "rays": best, "epochs": epochs, **interval})
    return found


def _interval(found: tuple[float, float, float]) -> dict[str, float]:
    return dict(zip(("mean", "low", "high"), (round(value, 4) for value in found), strict=True))


def _reached(repeats: Sequence[Sequence[float]]) -> list[int]:
    from benchmarks._regret import STEP

    return [epochs for epochs in AT if epochs <= STEP * min(map(len, repeats))]


def _at(repeats: Sequence[Sequence[float]], epochs: int) -> list[float]:
    from benchmarks._regret import STEP

    return [curve[epochs // STEP - 1] for curve in repeats]


def describe(rows: Sequence[Run]) -> str:
    """A table per number of slots."""
    blocks = []
    for slots in dict.fromkeys(row["slots"] for row in rows):
        here = [row for row in rows if row["slots"] == slots]
        reached = list(dict.fromkeys(row["epochs"] for row in here))
        lines = [
            [arm, *(_cell(row) for row in here if row["arm"] == arm)]
            for arm in dict.fromkeys(row["arm"] for row in here)
        ]
        titles = [f"regret in points, {slots} at a time", *(f"{epochs:,} epochs" for epochs in reached)]
        blocks.append(_measure.table(titles, lines))
    return "\n\n".join(blocks) + "\n"


def describe_pairs(pairs: Sequence[Run]) -> str:
    lines = [
        [f"{row['ours']} - {row['rays']}", str(row["slots"]), f"{row['epochs']:,}", _cell(row)]
        for row in pairs
    ]
    return _measure.table(("ours less Ray's", "at a time", "epochs", "points"), lines) + "\n"


def _cell(row: Run) -> str:
    return f"{row['mean']:.2f} ({row['low']:.2f} to {row['high']:.2f})"


def goals(pairs: Sequence[Run]) -> list[Goal]:
    """Ours is not behind, wherever they are compared."""
    return [
        Goal(
            f"{_identifier(row['ours'])}_less_rays_{row['epochs']}_{row['slots']}_slots",
            row["mean"],
            "<=",
            0.0,
        )
        for row in pairs
    ]


def _identifier(arm: str) -> str:
    return arm.replace(", ", "_").replace(" ", "_")


def _words(run: Run) -> str:
    return (
        f"{run['arm']}, {run['slots']} at a time, repeat {run['repeat'] + 1}: {run['epochs']} epochs of "
        f"{run['trials']} trials, {run['points']} points; regret {run['regrets'][-1]:.2f}"
    )


def _quiet() -> None:
    """What Ray reads when it is imported, and the libraries' chatter."""
    from sweeps.cluster import ray_environment

    ray_environment.prepare_environment()
    warnings.simplefilter("ignore", FutureWarning)
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for name in ("hpbandster", "ray.tune"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.search",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--arms", nargs="+", help="some of them, by name (default: all)")
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 4], help="trials at a time")
    parser.add_argument("--budget", type=int, default=1_080, help="epochs of each search")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--by-tune", action="store_true", help="let Tune run the trials, in processes")
    parser.add_argument(
        "--pace", type=float, default=0.1, help="with --by-tune: seconds for a second of the real training"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
