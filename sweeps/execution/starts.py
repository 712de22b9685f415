"""Where processes of trials start, and PCs on which none does: these are left out.

A process that ends while it starts (a package is missing, the disk is full) is an error of Ray's, whose text
names the PC. Where none even begins (Python itself is broken) Ray tries for ever and says nothing: then the
placement group of the trial tells the PC.
"""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ray.exceptions import RayActorError, RuntimeEnvSetupError
from ray.tune.experiment import Trial
from ray.util.placement_group import PlacementGroup

from sweeps.cluster import broadcast, placement
from sweeps.cluster.membership import Membership
from sweeps.execution.trial_actors import TrialActors

MOST_FAILED = 2
"""Starts in a row that may fail on a PC."""
START_S = 120.0
"""For a start. Ray gives a process 60 s to begin, and then tries another."""
LOOK_EVERY_S = 5.0
"""A look is a request to the head, of a few ms, for each trial that waits."""
STARTS = (RayActorError, RuntimeEnvSetupError)
"""Errors that a start may end in."""
WHERE = re.compile(r"(?:\bip[:=] ?|\[Node )([^\s,)\]]+)")
"""The PC, which Ray 2.60 has in the text alone: `ip: 10.0.0.1` of a process, `ip=10.0.0.1` of an exception,
`[Node 10.0.0.1]` where the sweep's code can't be unpacked."""
NOTHING_STARTS = "no process of a trial starts there"


class FailedStart(NamedTuple):
    """A process of a trial that did not start."""

    node: str
    """Ray's id of its PC; "" where that is lost."""
    pc: str
    why: str
    is_of_the_pc: bool
    """Whether no process starts there any more, as far as is known."""


class Overdue(NamedTuple):
    """A start that has not happened."""

    trial: Trial
    """One that waits for a process."""
    group: PlacementGroup
    """Where a process should have started."""
    start: FailedStart


class Starts:
    """The starts of processes on the PCs of a cluster.

    Args:
        membership: of the PCs.
        processes: of the trials.
        clock: seconds.
    """

    def __init__(
        self, membership: Membership, processes: TrialActors, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._membership, self._processes, self._clock = membership, processes, clock
        self._failed: Counter[str] = Counter()
        """By Ray's id of a PC, starts that have failed since one succeeded."""
        self._started: set[str] = set()
        self._waited: defaultdict[str, float] = defaultdict(float)
        """By Ray's id of a PC, seconds that groups there were without a process since one started. Tune gives
        up a group for a process that becomes free elsewhere, and later asks for another."""
        self._looked_at = self._clock() - LOOK_EVERY_S

    def failed(self, error: Exception) -> FailedStart | None:
        """Count a start that has failed; None where the error does not say on which PC."""
        self._note_started()
        has_cause = isinstance(error, RuntimeEnvSetupError) or (
            isinstance(error, RayActorError) and error.actor_init_failed
        )
        if (address := WHERE.search(str(error))) is None or not isinstance(error, STARTS):
            return None
        pc = next((node for node in self._membership.there if node.address == address[1]), None)
        if pc is None:
            return FailedStart("", address[1], "its PC is lost", is_of_the_pc=False)
        self._failed[pc.id] += 1
        why = broadcast.cause(error) if has_cause else broadcast.ENDED_AT_ONCE
        return FailedStart(pc.id, pc.name, why, self._failed[pc.id] >= MOST_FAILED)

    def overdue(self, trials: Sequence[Trial]) -> Overdue | None:
        """A group on a PC where the process of a trial should have started long ago, if one of these trials
        waits for a process."""
        if (now := self._clock()) < self._looked_at + LOOK_EVERY_S:
            return None
        passed, self._looked_at = min(now - self._looked_at, 2 * LOOK_EVERY_S), now
        pending = next((trial for trial in trials if trial.status == Trial.PENDING), None)
        if pending is None:
            return None
        self._note_started()
        begun = {process.group for process in self._processes.all()}
        waiting = {group: of for group, of in placement.placed().items() if group not in begun}
        for of in set(waiting.values()):
            self._waited[of] += passed
        for group, of in waiting.items():
            pc = next((node for node in self._membership.there if node.id == of), None)
            if pc is not None and self._waited[of] > START_S:
                why = f"Ray has tried for {START_S / 60:g} min (is Python broken there?)"
                return Overdue(pending, group, FailedStart(pc.id, pc.name, why, is_of_the_pc=True))
        return None

    def _note_started(self) -> None:
        """A PC where one has started works."""
        for process in self._processes.all():
            if process.name not in self._started and process.locate():
                self._started.add(process.name)
                self._failed.pop(process.node, None)
                self._waited.pop(process.node, None)
