"""A trial as Optuna's journal has it, for optuna-dashboard and other programs that read Optuna's studies."""

from __future__ import annotations

from optuna.trial import FrozenTrial, TrialState, create_trial

from sweeps.common.objective import Objective
from sweeps.record.trials import ENDED_WELL, Status, TrialRow

_STATES = {
    "finished": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "stopped": TrialState.PRUNED,
    "failed": TrialState.FAIL,
    "diverged": TrialState.FAIL,
    "infeasible": TrialState.FAIL,
}


def begun(trial: TrialRow) -> FrozenTrial:
    """A trial that begins."""
    attributes = {
        "trainable": trial.trainable,
        "params": dict(trial.params),
        "fixed": dict(trial.fixed),
        "seed": trial.seed,
    }
    attributes |= {} if trial.confirms is None else {"confirms": trial.confirms}
    attributes |= {"origin": trial.origin} if trial.origin else {}
    return create_trial(
        state=TrialState.RUNNING,
        params=dict(trial.optuna.params),
        distributions=dict(trial.optuna.distributions),
        user_attrs=attributes,
    )


def ended(trial: TrialRow, status: Status, objective: Objective) -> tuple[TrialState, list[float] | None]:
    """State and value of a trial that ends. As Optuna's own `tell`, a pruned one has its last score: the
    dashboard plots no trial without one."""
    last = trial.last_score if status in ENDED_WELL else None
    value = trial.best_score(objective) if status == "finished" else last
    return _STATES[status], None if value is None else [value]
