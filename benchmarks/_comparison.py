"""Searches compared: means, paired differences and ratios with intervals, goals, tables, a picture."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import _measure, _optuna_search, _raytune, _regret, _synetune, _wandb
from benchmarks._measure import Goal
from benchmarks._regret import Interval

if TYPE_CHECKING:
    from benchmarks._problems import Epoch, Problem

TODAY = "tpe+asha"
"""The arm that all are compared with."""
SEARCH = "gp+halving"
"""The arm that goals are about."""
RIVALS = (
    "bohb",
    *_raytune.RAYS,
    *_optuna_search.OPTUNAS,
    *_wandb.WANDBS,
    _synetune.NAME,
)
GOALS = {160: 0.70, 500: 0.75, 1_500: 0.60}
"""Epochs to the regret of SEARCH on lcbench, as a share of that of TODAY."""
WORSE = 3.0
"""Points by which it may be worse on one task, from 500 epochs on."""
MEASURES = ("choice", "weights")

Row = dict[str, Any]
Key = tuple[str, str, int, int]
"""Arm, problem, slots and seed."""
Setting = tuple[str, int, int]
"""Family, slots and budget."""


@dataclass(frozen=True)
class Run:
    """One search, at one of its budgets."""

    family: str
    problem: str
    arm: str
    slots: int
    seed: int
    budget: int
    epochs: int
    """That it trained: less than the budget when it ended before."""
    trials: int
    choice: float
    """Regret, in points of accuracy."""
    weights: float

    @property
    def setting(self) -> Setting:
        return self.family, self.slots, self.budget


def of_search(arm: str, problem: Problem, slots: int, seed: int, budget: int, found: Sequence[Epoch]) -> Run:
    """What a search has found."""
    regret, trials = problem.regret(found), len({epoch.trial for epoch in found})
    return Run(
        problem.family,
        problem.name,
        arm,
        slots,
        seed,
        budget,
        len(found),
        trials,
        regret.choice,
        regret.weights,
    )


def keep(file: Path, runs: Sequence[Run]) -> None:
    """Append what a search has found, a line per budget."""
    with file.open("a") as lines:
        lines.writelines(json.dumps(dataclasses.asdict(run)) + "\n" for run in runs)


def kept(file: Path, keys: Collection[Key], budgets: Collection[int]) -> list[Run]:
    """The searches in a file, of those asked for, that have all budgets."""
    if not file.exists():
        return []
    runs = {Run(**json.loads(line)) for line in file.read_text().splitlines()}
    groups: dict[Key, list[Run]] = {}
    for run in runs:
        if run.budget in budgets:
            groups.setdefault((run.arm, run.problem, run.slots, run.seed), []).append(run)
    return [run for key in groups.keys() & keys if len(groups[key]) == len(budgets) for run in groups[key]]


def summary(runs: Sequence[Run]) -> list[Row]:
    """A row per family, slots, budget and arm."""
    rows = []
    for setting in dict.fromkeys(run.setting for run in runs):
        for arm in dict.fromkeys(run.arm for run in runs):
            if not (own := _paired(runs, setting, arm, arm)):
                continue
            row: Row = dict(zip(("family", "slots", "budget"), setting, strict=True))
            row |= {"arm": arm, "searches": len(own)}
            row["epochs"] = round(sum(run.epochs for run, _ in own) / len(own), 1)
            row["trials"] = round(sum(run.trials for run, _ in own) / len(own), 1)
            for measure in MEASURES:
                row[measure] = _rounded(_regret.mean([getattr(run, measure) for run, _ in own]))
                row[f"{measure}_less_today"] = _difference(runs, setting, arm, TODAY, measure)
            row["choice_ratio"] = _ratio(runs, setting, arm, TODAY)
            row["choice_times_search"] = _ratio(runs, setting, arm, SEARCH)
            rows.append(row)
    return rows


def by_problem(runs: Sequence[Run]) -> list[Row]:
    """Mean regrets of each arm on each problem."""
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault((*run.setting, run.arm, run.problem), []).append(run)
    names = ("family", "slots", "budget", "arm", "problem")
    return [
        {**dict(zip(names, key, strict=True)), **{m: round(_mean(group, m), 3) for m in MEASURES}}
        for key, group in groups.items()
    ]


def _paired(runs: Sequence[Run], setting: Setting, arm: str, other: str) -> list[tuple[Run, Run]]:
    """Runs of two arms on the same problem with the same seed."""
    here = [run for run in runs if run.setting == setting]
    others = {(run.problem, run.seed): run for run in here if run.arm == other}
    return [
        (run, others[run.problem, run.seed])
        for run in here
        if run.arm == arm and (run.problem, run.seed) in others
    ]


def _difference(
    runs: Sequence[Run], setting: Setting, arm: str, other: str, measure: str
) -> list[float] | None:
    """Mean of the paired differences, below 0 where `arm` is ahead."""
    pairs = _paired(runs, setting, arm, other)
    return (
        _rounded(_regret.mean([getattr(a, measure) - getattr(b, measure) for a, b in pairs]))
        if pairs
        else None
    )


def _ratio(runs: Sequence[Run], setting: Setting, arm: str, other: str) -> list[float] | None:
    """Share of another's regret; none on fashion_cnn, where that is nearly 0."""
    pairs = _paired(runs, setting, arm, other) if setting[0] == "lcbench" else []
    if not pairs:
        return None
    return _rounded(_regret.ratio([run.choice for run, _ in pairs], [its.choice for _, its in pairs]))


def _mean(runs: Sequence[Run], measure: str) -> float:
    return float(sum(getattr(run, measure) for run in runs) / len(runs))


def _rounded(interval: Interval) -> list[float]:
    return [round(value, 3) for value in interval]


def goals(runs: Sequence[Run]) -> list[Goal]:
    """What the search is to reach, wherever it was run with what it is compared with."""
    found = []
    for setting in dict.fromkeys(run.setting for run in runs):
        family, slots, budget = setting
        name = f"{budget}_epochs_{slots}_at_a_time"
        if family == "lcbench" and budget in GOALS and (ratio := _ratio(runs, setting, SEARCH, TODAY)):
            found.append(Goal(f"share_of_todays_regret_{name}", ratio[0], "<=", GOALS[budget]))
            found.append(Goal(f"its_upper_end_{name}", ratio[2], "<=", 1.0))
            if budget >= 500:
                found.append(Goal(f"points_worse_on_a_task_{name}", _worst(runs, setting), "<=", WORSE))
        for rival in RIVALS if family == "lcbench" else (TODAY,):
            if less := _difference(runs, setting, SEARCH, rival, "choice"):
                found.append(Goal(f"surely_behind_{_identifier(rival)}_{family}_{name}", less[1], "<=", 0.0))
        if less := _difference(runs, setting, SEARCH, TODAY, "weights"):
            found.append(Goal(f"weights_surely_worse_{family}_{name}", less[1], "<=", 0.0))
    return found


def _worst(runs: Sequence[Run], setting: Setting) -> float:
    """Points by which the search is behind today's on the problem where it is furthest behind."""
    by_name: dict[str, list[float]] = {}
    for run, today in _paired(runs, setting, SEARCH, TODAY):
        by_name.setdefault(run.problem, []).append(run.choice - today.choice)
    return max(sum(each) / len(each) for each in by_name.values())


def _identifier(arm: str) -> str:
    return "_".join(arm.lower().replace("+", " ").replace(",", "").split())


def describe(rows: Sequence[Row]) -> str:
    """A table per family, slots and measure, and the ratios."""
    parts: list[tuple[str, Callable[[Row], str]]] = [
        ("regret of the choice", lambda row: _cell(row["choice"])),
        ("regret of the weights", lambda row: _cell(row["weights"])),
        (f"choice, share of {TODAY}'s", lambda row: _cell(row["choice_ratio"])),
    ]
    return "\n\n".join(
        _table(rows, family, slots, title, cell)
        for family, slots in dict.fromkeys((row["family"], row["slots"]) for row in rows)
        for title, cell in parts
    )


def _table(rows: Sequence[Row], family: str, slots: int, title: str, cell: Callable[[Row], str]) -> str:
    here = [row for row in rows if (row["family"], row["slots"]) == (family, slots)]
    budgets = list(dict.fromkeys(row["budget"] for row in here))
    lines = [
        [arm, *(cell(row) for row in here if row["arm"] == arm)]
        for arm in dict.fromkeys(r["arm"] for r in here)
    ]
    titles = [f"{family}, {slots} at a time: {title}", *(f"{budget:,} epochs" for budget in budgets)]
    return _measure.table(titles, lines)


def _cell(interval: Sequence[float] | None) -> str:
    return "-" if interval is None else "{:.2f} ({:.2f} to {:.2f})".format(*interval)


def draw(rows: Sequence[Row], path: Path) -> None:
    """The regrets of the choices."""
    means: dict[tuple[str, int], dict[str, dict[int, Interval]]] = {}
    for row in rows:
        arms = means.setdefault((row["family"], row["slots"]), {})
        arms.setdefault(row["arm"], {})[row["budget"]] = Interval(*row["choice"])
    _regret.draw(means, path)


def append_check(path: Path, decision: str, rows: Sequence[Row], reached: Sequence[Goal]) -> None:
    """Date, commit and decision of a look at the tasks to check, with what was seen."""
    revision = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    commit = subprocess.run(revision, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    head = "" if path.exists() else "# Looks at the tasks to check\n"
    text = f"\n## {time.strftime('%Y-%m-%d')}, commit {commit}: {decision}\n\n```text\n{describe(rows)}\n\n"
    with path.open("a") as file:
        file.write(head + text + "\n".join(goal.line() for goal in reached) + "\n```\n")
