"""Points as Optuna stores them. Beside `point.py`, which a trial's process imports without Optuna."""

from __future__ import annotations

import warnings

from optuna.trial import FixedTrial, TrialState, create_trial

from sweeps.space.point import InvalidPoint, OptunaPoint, Point, Space


def optuna_point(space: Space, point: Point) -> OptunaPoint:
    """A point's values and the distributions that `space` asks for with them.

    Raises:
        LookupError, ValueError: it is not a point of this space.
    """
    names = space.names(point)
    replay = FixedTrial(dict(names))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a value out of range: `create_trial` refuses it
        space.suggest(replay)
    if missing := names.keys() - replay.params.keys():
        raise InvalidPoint({name: f"{name}: not a hyperparameter of this point" for name in missing})
    create_trial(state=TrialState.RUNNING, params=replay.params, distributions=replay.distributions)
    return OptunaPoint(replay.params, replay.distributions)
