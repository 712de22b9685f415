"""A trial as Optuna's journal has it, for optuna-dashboard and other programs that read Optuna's studies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from sweeps.common.objective import Objectives
from sweeps.record import sweep_info
from sweeps.record.trials import ENDED_WELL, Status, TrialRow

_STATES = {
    "finished": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "stopped": TrialState.PRUNED,
    "failed": TrialState.FAIL,
    "diverged": TrialState.FAIL,
    "infeasible": TrialState.FAIL,
}


def new_study(storage: BaseStorage, name: str, about: Mapping[str, Any]) -> int:
    """A new study with a direction and a name for each objective of a sweep; its id."""
    objectives = sweep_info.parse(about).objectives
    study_id = storage.create_new_study(
        [StudyDirection[each.direction.upper()] for each in objectives.every], name
    )
    if "metric" in about:  # as `Study.set_metric_names`, which warns that it is experimental
        storage.set_study_system_attr(study_id, "study:metric_names", objectives.metrics)
    return study_id


def begun(trial: TrialRow) -> FrozenTrial:
    """A trial that begins."""
    attributes = {name: getattr(trial, name) for name in ("trainable", "params", "fixed", "seed")}
    attributes |= {} if trial.confirms is None else {"confirms": trial.confirms}
    attributes |= {"origin": trial.origin} if trial.origin else {}
    return create_trial(
        state=TrialState.RUNNING,
        params=dict(trial.optuna.params),
        distributions=dict(trial.optuna.distributions),
        user_attrs=attributes,
    )


def ended(trial: TrialRow, status: Status, objectives: Objectives) -> tuple[TrialState, list[float] | None]:
    """State and values of a trial that ends. As Optuna's own `tell`, a pruned one has those of its last
    epoch: the dashboard plots no trial without any."""
    values = None
    if status == "finished":
        values = trial.values(objectives)
    elif status in ENDED_WELL and trial.epochs:
        last = trial.epochs[max(trial.epochs)]
        values = objectives.values(last.score, last.metrics)
    return _STATES[status], None if values is None else list(values)
