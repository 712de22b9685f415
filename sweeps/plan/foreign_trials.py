"""Trials of other programs, for `--refine`: a study of Optuna, or a table of runs as CSV.

With which code and on which data they were trained is not known, so their scores are not comparable with
those of the new sweep: they shape its ranges, and the best ones run again first.
"""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from sweeps.common.errors import UserError, first_line
from sweeps.common.formatting import count
from sweeps.common.objective import Objective, split
from sweeps.common.param_types import fixed_defaults, given_fault, held, hints_of, plain_types, type_fault
from sweeps.common.yaml_values import ParamValue, hyperparameter, nearest
from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.config.sweep_folder import EPOCHS_SUFFIX, SQLITE, STUDY
from sweeps.kinds import registry
from sweeps.kinds.trainable import Trainable
from sweeps.record import optuna_study
from sweeps.record.optuna_study import Study
from sweeps.record.ranking import RankedTrials
from sweeps.record.trials import EpochRow, Status, TrialRow
from sweeps.space.optuna_space import choices_of, range_of
from sweeps.space.overrides import text_of, unmarked
from sweeps.space.point import OptunaPoint

PREFIXES = ("params_", "params.", "params/", "param_", "config.", "config/", "hparams.", "hparams/")
"""Of hyperparameters in the tables of Optuna, Ray Tune, MLflow and W&B."""
STATUSES: Mapping[str, Status] = {
    **dict.fromkeys(("finished", "complete", "completed", "terminated", "success"), "finished"),
    **dict.fromkeys(("pruned", "early_terminated"), "pruned"),
    **dict.fromkeys(("stopped", "killed", "preempted"), "stopped"),
    **dict.fromkeys(("fail", "failed", "crashed", "error"), "failed"),
    **dict.fromkeys(("diverged", "infeasible"), "failed"),
    **dict.fromkeys(("unfinished", "running", "pending", "waiting", "scheduled", "paused"), "unfinished"),
}
"""Words of W&B, Optuna, Ray Tune, MLflow and this program."""
MOST_LISTED = 12
"""Columns that are not used, in the plan."""
OF_STATUS, OF_NAME = ("status", "state"), ("name", "run", "trial_id", "id", "number")
"""Columns, in small letters."""


class ForeignTrials(RankedTrials):
    """The trials of a study or a table."""

    def __init__(self, source: Path, name: str, about: Mapping[str, Any]) -> None:
        super().__init__({"sweep": name, **about})
        self.folder, self.name = source, name
        self.notes: list[str] = []
        """For the plan: what was not matched."""
        self.left_out = ""
        """Rows that can't be read, and why."""

    @property
    def and_left_out(self) -> str:
        """The same behind a message that there is nothing to learn from."""
        return f"; {self.left_out}" if self.left_out else ""

    def add(self, trial: TrialRow) -> None:
        """A trial that has ended."""
        self._list(trial)
        self._settle(trial)
        for epoch, row in trial.epochs.items():
            self._rank_epoch(trial, trial.attempt, epoch, row)


def read(given: str, config: SweepConfig) -> ForeignTrials:
    """The trials of a file that was given to `--refine`.

    Raises:
        UserError: it can't be read, or has nothing to learn from.
    """
    named, _, study = given.partition(STUDY)
    path, what = Path(named.removeprefix(SQLITE)).expanduser(), f"--refine {given}"
    if not path.is_file():
        raise UserError(f"{what}: no such file")
    if len(config.trainables) > 1:
        raise UserError(f"{what}: it goes with one trainable, and there are {len(config.trainables)}")
    if len(config.metrics) > 1 or config.constraints:
        raise UserError(f"{what}: --refine goes by one metric, without constraints")
    trainable = registry.find(config.trainables[0])
    objective = _objective(config, trainable, what)
    if path.suffix.lower() in (".csv", ".tsv"):
        found = _of_table(path, config, trainable, objective, what)
    else:
        found = _of_study(path, study, config, trainable, objective, what)
    if found.best() is None:
        raise UserError(f"{what}: no trial there has a {objective.metric}{found.and_left_out}")
    return found


def _objective(config: SweepConfig, trainable: Trainable, what: str) -> Objective:
    own = trainable.objective
    metric, mode = split(config.metrics[0]) if config.metrics else (own.metric if own else "", "")
    mode = mode or config.mode or (own.mode if own and own.metric == metric else "")
    if not metric or not mode:
        raise UserError(f"{what}: give --metric and --mode, by which its trials are compared")
    return Objective(metric, "min" if mode == "min" else "max")


class _Names:
    """Hyperparameters of a trainable by the names that they have elsewhere."""

    def __init__(self, trainable: Trainable, names: Iterable[str]) -> None:
        self.hints, own = hints_of(trainable.params_class), dict[str, str]()
        last = [name.rpartition(".")[2] for name in self.hints]
        short = {each: name for each, name in zip(last, self.hints, strict=True) if last.count(each) == 1}
        found, names = dict[str, str](), [*names]
        for name in names:
            bare = next((name.removeprefix(each) for each in PREFIXES if name.startswith(each)), name)
            own[name] = bare if bare in self.hints else short.get(bare, "")
        for name in sorted(names, key=lambda each: each not in self.hints):  # the name itself comes first
            if own[name] and own[name] not in found.values():
                found[name] = own[name]
        self.found: Mapping[str, str] = found
        """Name there to hyperparameter."""

    def value(self, name: str, value: Any) -> ParamValue:
        """A value in the type of its hyperparameter; ValueError where it is none."""
        hint = self.hints[name]
        if isinstance(value, float) and not isfinite(value):
            raise ValueError("must be finite")
        if isinstance(value, float) and value.is_integer() and not {float, Any} & plain_types(hint):
            value = int(value)  # a table with gaps has 16.0 for 16
        if fault := given_fault(value, hint):
            raise ValueError(fault)
        kept: ParamValue = held(value, hint)
        return kept

    def of_cell(self, name: str, text: str) -> ParamValue:
        """The same of a cell of a table, in which an empty one is null."""
        if text:
            return self.value(name, hyperparameter(text))
        if type_fault(None, self.hints[name]):
            raise ValueError("is empty")
        return None


def _about(config: SweepConfig, objective: Objective, ranges: Mapping[str, Any]) -> dict[str, Any]:
    settings = {"ranges": dict(ranges), "search_space": config.search_space}
    return {
        **{"metric": objective.metric, "mode": objective.mode, "trainable": config.trainables[0]},
        "identity": {"settings": settings},
    }


def _row(number: int, trainable: Trainable, params: Mapping[str, ParamValue], **more: Any) -> TrialRow:
    """A trial; what its source does not know has the default."""
    defaults = fixed_defaults(trainable.params_class)
    fixed = {name: value for name, value in defaults.items() if name not in params}
    return TrialRow(
        number=number, params=params, seed=0, start=0.0, fixed=fixed, trainable=trainable.name, **more
    )


def _status(word: str, scores: Mapping[int, float]) -> Status:
    """How a trial has ended, by the word of its source; one that has not, or has no score, has failed."""
    how = STATUSES.get(word.lower(), "finished")
    return "failed" if how == "unfinished" or not scores else how


def _epochs(scores: Mapping[int, float], metric: str) -> dict[int, EpochRow]:
    return {e: EpochRow(scores[e], {metric: scores[e]}, 0.0, 0.0) for e in sorted(scores)}


def _notes(names: _Names, others: Sequence[str]) -> Iterator[str]:
    matched = [each if each == own else f"{each} as {own}" for each, own in names.found.items()]
    yield f"hyperparameters: {', '.join(matched)}"
    if others:
        more = f" and {len(others) - MOST_LISTED} more" if len(others) > MOST_LISTED else ""
        yield f"not used: {', '.join(others[:MOST_LISTED])}{more}"


# Tables


def _of_table(
    path: Path, config: SweepConfig, trainable: Trainable, objective: Objective, what: str
) -> ForeignTrials:
    columns, rows = _table(path, what)
    names, metric = _Names(trainable, columns), objective.metric
    score = _score_column(columns, objective)
    if score is None:
        near = nearest(metric, columns)
        raise UserError(f"{what}: no column of {metric}.{near} Columns: {', '.join(columns)}")
    if not names.found:
        hints = ", ".join(names.hints)
        raise UserError(f"{what}: no column of a hyperparameter ({hints}). Columns: {', '.join(columns)}")
    small = {column.lower(): column for column in reversed(columns)}
    status = next((small[each] for each in OF_STATUS if each in small), "")
    name = next((small[each] for each in OF_NAME if each in small), "")
    history = _history(path, objective, what)
    found = ForeignTrials(path, path.name, _about(config, objective, {}))
    space = plugins.space_of(next(iter(config.search_spaces), trainable.name), trainable, has_ranges=True)
    are_some_without = space is not None and space.suggest is not None
    left_out = list[str]()
    for number, row in enumerate(rows, 1):
        if row.get("confirms"):
            continue
        params, unread = dict[str, ParamValue](), list[str]()
        for column, own in names.found.items():
            if not row[column] and are_some_without:
                continue  # a trial of a function `suggest` has some of the hyperparameters alone
            try:
                params[own] = names.of_cell(own, row[column])
            except ValueError as error:
                unread.append(f"{column}{f' {row[column]!r}' if row[column] else ''} {error}")
        if unread:
            left_out.append(f"row {number} ({', '.join(unread)})")
            continue
        of_row = _number(row[score])
        # Without a table of epochs, all scores are those of the ends, whichever epochs these were.
        scores = history.get(row.get(name, ""), {} if of_row is None else {1: of_row})
        how = _status(row[status] if status else "", scores)
        what_it_is = "run" if name.lower() == "name" else "trial"
        label = f"{what_it_is} {row[name]}" if name else f"row {number}"
        trial = _row(len(found.trials), trainable, params, status=how, origin=label)
        found.add(dataclasses.replace(trial, optuna=OptunaPoint(params), epochs=_epochs(scores, metric)))
    if left_out:
        more = f", and {len(left_out) - 3:,} more" if len(left_out) > 3 else ""
        of_all = f"{len(left_out):,} of {count(len(rows), 'row')}"
        found.left_out = f"left out: {of_all}: {', '.join(left_out[:3])}{more}"
    if not found.trials:
        raise UserError(f"{what}: no row can be read{found.and_left_out}")
    others = [each for each in columns if each not in {*names.found, score, status, name}]
    found.notes += [f"score: {score}", *_notes(names, others)]
    found.notes += [found.left_out] if left_out else []
    return found


def _table(path: Path, what: str) -> tuple[list[str], list[dict[str, str]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            head = file.readline()
            file.seek(0)
            reader = csv.reader(file, delimiter=max(",;\t", key=head.count))
            columns = [each.strip() for each in next(reader, [])]
            rows = [dict(zip(columns, [*row, *[""] * len(columns)], strict=False)) for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{what}: can't be read as CSV: {first_line(error)}") from None
    if not rows:
        raise UserError(f"{what}: it has no trials")
    return columns, [{name: (text or "").strip() for name, text in row.items()} for row in rows]


def _score_column(columns: Sequence[str], objective: Objective) -> str | None:
    metric = objective.metric
    of_best = (f"best_{metric}", f"{metric}.{objective.mode}", f"summary.{metric}", f"last_{metric}")
    known = (metric, *of_best, f"values_{metric}", f"metrics.{metric}", "value")
    return next((each for each in known if each in columns), None)


def _number(text: str) -> float | None:
    try:
        return number if isfinite(number := float(text)) else None
    except ValueError:
        return None


def _history(path: Path, objective: Objective, what: str) -> dict[str, dict[int, float]]:
    """Id to the score of each epoch, by the table that `sweeps results --csv` writes beside."""
    beside, found = path.with_name(path.stem + EPOCHS_SUFFIX), dict[str, dict[int, float]]()
    if not beside.is_file():
        return found
    columns, rows = _table(beside, f"{what}: {beside.name}")
    if {"id", "epoch", objective.metric} <= {*columns}:
        for number, row in enumerate(rows, 1):
            epoch = _number(row["epoch"])
            if epoch is None or epoch < 1 or not epoch.is_integer():
                fault = "must be a whole number from 1"
                raise UserError(f"{what}: {beside.name}: row {number}: epoch {row['epoch']!r}: {fault}")
            if (score := _number(row[objective.metric])) is not None:
                found.setdefault(row["id"], {})[int(epoch)] = score
    return found


# Studies of Optuna


def _of_study(
    path: Path, asked: str, config: SweepConfig, trainable: Trainable, objective: Objective, what: str
) -> ForeignTrials:
    study = optuna_study.read(path, asked, what)
    if len(study.directions) > 1:
        raise UserError(f"{what}: it has {len(study.directions)} objectives, and --refine goes by one")
    if study.directions[0] != objective.direction:
        raise UserError(
            f"{what}: the study is to {study.directions[0]} its value, this sweep to {objective.direction} "
            f"{objective.metric}"
        )
    if not study.trials:
        raise UserError(f"{what}: it has no trials")
    there = dict.fromkeys(each for trial in study.trials for each in trial.params)
    names = _Names(trainable, there)
    if not names.found:
        raise UserError(
            f"{what}: none of its hyperparameters ({', '.join(there)}) is one of {trainable.called}: "
            f"{', '.join(names.hints)}"
        )
    about = _about(config, objective, _ranges(study, names))
    found = ForeignTrials(path, f"{path.name}{STUDY}{asked}" if asked else path.name, about)
    steps = {step for trial in study.trials for step in trial.intermediate_values}
    first = 0 if min(steps, default=1) > 0 else 1  # of epochs that are counted from 0
    last = max(steps, default=0) + first
    for trial in study.trials:
        kept = {own: typed for typed, own in names.found.items() if typed in trial.params}
        point = OptunaPoint(
            {own: trial.params[typed] for own, typed in kept.items()},
            {own: trial.distributions[typed] for own, typed in kept.items()},
        )
        reported = trial.intermediate_values.items()
        scores = {step + first: score for step, score in reported if step + first > 0 and isfinite(score)}
        if not scores and trial.values:
            scores = {max(1, last): trial.values[0]}
        row = _row(trial.number, trainable, point.params, status=_status(trial.state.name, scores))
        found.add(dataclasses.replace(row, optuna=point, epochs=_epochs(scores, objective.metric)))
    if study.metrics not in ([], [objective.metric]):
        found.notes.append(f"score: {study.metrics[0]}, taken for {objective.metric}")
    found.notes += _notes(names, [each for each in there if each not in names.found])
    return found


def _ranges(study: Study, names: _Names) -> dict[str, Any]:
    found = dict[str, Any]()
    for typed, own in names.found.items():
        of_all = (trial.distributions for trial in study.trials)
        drawn_from = dict.fromkeys(each[typed] for each in of_all if typed in each)
        asked, hint = range_of(drawn_from), names.hints[own]
        if asked is None:
            found[own] = choices_of(drawn_from)
        elif asked.low < asked.high:
            found[own] = text_of(asked, unmarked(None, hint, asked.low, asked.high))
    return found
