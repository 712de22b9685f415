"""The places of a sweep where others train on the same PCs: it claims them, and keeps to what it is given.

A trial beyond that is asked to leave at its next step. It is requeued, and continues from the checkpoint that
it writes when there is room: no scheduler sees a pause. Of the trials of a PC the one leaves that began last.
A process that Tune keeps for the next trial is ended, and a trial that waits for a place gives that up.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ray.tune.experiment import Trial
from ray.util.placement_group import PlacementGroup, placement_group_table

from sweeps.execution.run_context import DriverCallback, RunContext
from sweeps.execution.trial_actors import TrialActors
from sweeps.ray_cluster import placement
from sweeps.search.search_method import RecordSearcher

WAITS_S = 0.5
"""Between two looks while there is no place to begin with."""
NOWHERE = "none"
"""In place of the id of a PC: Ray places nothing there."""


@dataclass
class PlacedTrial:
    """The placement group of a process, from its request on."""

    group: PlacementGroup
    chosen: Counter[str] | None
    """Workers by PC, as they were asked for; None: anywhere."""
    nodes: Counter[str] = field(default_factory=Counter)
    """The same as Ray has placed them; empty before."""


class SharedPlaces(DriverCallback):
    """Claims places in each turn of Tune's loop, and obeys.

    Args:
        gpus: that each worker of a trial takes now.
        closed: places on GPUs that other programs fill, for trials that take so many GPUs each.
    """

    def __init__(
        self,
        context: RunContext,
        searcher: RecordSearcher,
        processes: TrialActors,
        gpus: Callable[[], float],
        closed: Callable[[float], int],
    ) -> None:
        self._context, self._searcher, self._processes = context, searcher, processes
        self._gpus, self._closed = gpus, closed
        self._placed: list[PlacedTrial] = []
        self._surplus = 0
        """Of the trials that have no process yet, those that have no place any more."""
        self.has_placed = False
        """Whether Tune had a trial."""

    def wait_for_place(self, is_to_end: Callable[[], bool]) -> None:
        """Wait until there is a place, or the sweep is to end."""
        self.renew()
        if not self._searcher.slots and (waits := self._context.places.waits):
            self._context.say(f"{waits[0].upper()}{waits[1:]}.")
        while not self._searcher.slots and not is_to_end():
            time.sleep(WAITS_S)

    def choose(self, workers: int) -> Sequence[str] | None:
        """The PC with the most room for each worker of a trial; None where the sweep is alone."""
        places = self._context.places.allotment.places
        if places is None:
            return None
        room = Counter(places)
        for placed in self._placed:
            room.subtract(placed.nodes or placed.chosen or {})
        chosen = []
        for _ in range(workers):
            pc, left = max(room.items(), key=lambda item: item[1], default=(NOWHERE, 0))
            chosen.append(pc if left > 0 else NOWHERE)
            room[pc] -= 1
        return chosen

    def note(self, group: PlacementGroup, chosen: Sequence[str] | None) -> None:
        """Note the placement group of a trial that was requested."""
        self.has_placed = True
        self._placed.append(PlacedTrial(group, None if chosen is None else Counter(chosen)))

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Claim."""
        self.renew()

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Take from each PC what it holds beyond its places: processes without a trial, then the trials that
        began last."""
        places = self._context.places.allotment.places
        if places is None or not self._context.end.is_running:
            return
        over = self._held()
        over.subtract(places)
        if max(over.values(), default=0) <= 0:
            return
        placed_of = {placed.group.id: placed for placed in self._placed if placed.nodes}
        there = [
            (process, placed)
            for process in self._processes.all()
            if process.locate() and process.own.group is not None
            if (placed := placed_of.get(process.own.group.id)) is not None
        ]
        asked = []
        for process, placed in sorted(there, key=lambda each: (each[0].has_trial, -each[0].began_at)):
            if all(over[pc] <= 0 for pc in placed.nodes):
                continue
            over.subtract(placed.nodes)
            if process.has_trial:
                asked.append(process)
            else:
                self._processes.end(process)
                self._placed.remove(placed)
        self._processes.ask_to_leave(asked)

    def to_give_up(self, pending: Sequence[Trial]) -> Sequence[Trial]:
        """Requeue those trials without a process that came last and have no place any more."""
        surplus, self._surplus = self._surplus, 0
        given_up = pending[len(pending) - min(surplus, len(pending)) :]
        for trial in given_up:
            self._searcher.requeue(trial.config["number"])
        return given_up

    def slots(self) -> float:
        """Trials that may train at a time. A sweep that is alone has others wait for a process that ends."""
        return math.inf if self._context.places.allotment.places is None else self._searcher.slots

    def renew(self) -> None:
        """Claim where that is due, and count the trials that may train now."""
        context = self._context
        if context.places.is_due():
            self._look()
            worker = placement.worker_resources(context.config, self._gpus())
            held, closed = +self._held(), context.cluster.closed
            context.places.claim(context.config, worker, self._wanted(), held, closed)
            self._surplus = self._count_surplus()
            if news := context.places.news():
                context.say(news)
        places = context.places.allotment.places
        if places is None:
            self._searcher.slots = (
                self._most_open() if self._closed(self._gpus()) else context.slots(self._gpus())
            )
            return
        there = {node.id for node in context.cluster.there}
        workers = sum(number for pc, number in places.items() if pc in there)
        # The full GPUs are off the PCs' room, and not off its part of that, too: both might leave it nothing.
        fitting = min(workers // context.config.workers_per_trial, self._most_open())
        self._searcher.slots = min(fitting, context.config.max_concurrent or fitting)

    def _look(self) -> None:
        """See which trials Ray has placed, and which placement groups are gone."""
        at_work = {
            process.own.group.id for process in self._processes.training() if process.own.group is not None
        }
        for placed in [*self._placed]:
            if placed.nodes and placed.group.id in at_work:
                continue
            table = placement_group_table(placed.group)
            if table.get("state", "REMOVED") == "REMOVED":
                self._placed.remove(placed)
            elif table["state"] == "CREATED":
                weight = self._weight(placed.group)
                nodes = Counter(table["bundles_to_node_id"].values())
                placed.nodes = Counter({pc: weight * workers for pc, workers in nodes.items()})

    def _weight(self, group: PlacementGroup) -> int:
        """As how many workers one of a group counts, since it may have a whole GPU and those of today a
        share."""
        gpus = self._gpus()
        return max(1, round(group.bundle_specs[0].get("GPU", 0.0) / gpus)) if gpus else 1

    def _held(self) -> Counter[str]:
        """Workers by PC."""
        held: Counter[str] = Counter()
        for placed in self._placed:
            held.update(placed.nodes)
        return held

    def _count_surplus(self) -> int:
        room = self._context.places.allotment.places
        there = {node.id for node in self._context.cluster.there}
        waiting = [placed for placed in self._placed if not placed.nodes]
        if room is None:
            return sum(placed.chosen is not None and not placed.chosen.keys() <= there for placed in waiting)
        left, surplus = Counter(room), 0
        left.subtract(self._held())
        for placed in waiting:
            if placed.chosen is None or any(left[pc] < workers for pc, workers in placed.chosen.items()):
                surplus += 1
            else:
                left.subtract(placed.chosen)
        return surplus

    def _wanted(self) -> int:
        """Trials that could train at a time. Those that train go on where fewer are to be trained."""
        context = self._context
        if not context.end.is_running or context.record.is_held:
            return 0
        wanted = min(self._searcher.wanted, max(self._most_open(), len(self._processes.training())))
        return int(wanted)

    def _most_open(self) -> int:
        """Trials for which the PCs have room, on GPUs that no other program fills."""
        context = self._context
        gpus = self._gpus()
        return placement.most(context.config, context.cluster.pcs, gpus, self._closed(gpus))
