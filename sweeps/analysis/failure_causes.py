"""Why trials fail or diverge."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from sweeps.analysis.compared_trials import is_bad
from sweeps.common.errors import without_worker
from sweeps.record.trials import Status, TrialRow


class Cause(NamedTuple):
    """Trials that failed, diverged or are infeasible alike."""

    status: Status
    reason: str
    """What is the same in all of them; numbers that differ are N."""
    trials: tuple[TrialRow, ...]


def causes_of(trials: Iterable[TrialRow]) -> list[Cause]:
    """Why trials failed, diverged or are infeasible, the most common cause first."""
    alike: dict[tuple[Status, str], list[TrialRow]] = defaultdict(list)
    for trial in filter(is_bad, trials):
        reason = re.sub(r"(?<![A-Za-z_])[-+]?\d[\d.,]*(e[-+]?\d+)?", "N", without_worker(trial.reason))
        alike[trial.status, reason].append(trial)
    found = [
        Cause(status, bad[0].reason if len({trial.reason for trial in bad}) == 1 else reason, tuple(bad))
        for (status, reason), bad in alike.items()
    ]
    return sorted(found, key=lambda cause: -len(cause.trials))
