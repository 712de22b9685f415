"""How trials are proposed: what each searcher defines, and the part of it that Tune asks."""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from ray.tune.search import Searcher

from sweeps.config.sweep_config import SweepConfig
from sweeps.ray_cluster.ray_internals import KeptHere
from sweeps.record.record import Record
from sweeps.record.trials import DEFAULTS, Ending, TrialRow, Waits
from sweeps.search.known_trials import Feasibility, KnownTrials
from sweeps.search.prior import Prior
from sweeps.space.domain import Form
from sweeps.space.optuna_space import optuna_point
from sweeps.space.point import InvalidPoint, OptunaPoint, Point, Space

RANDOM_ATTEMPTS = 200
"""Random points before a space counts as exhausted."""
MODEL_ATTEMPTS = 20
"""Points of a model before a random one is taken instead of a duplicate."""
BY_THE_USER = "chosen by the user"
"""Origin of a trial."""
MOST_REFUSED = 10
"""Points that are refused without a look at what else there is to do: results, commands, Ctrl-C."""


ALL_OF_OPTUNA: frozenset[Form] = frozenset({"finite", "continuous", "conditional", "several"})
"""The forms that Optuna has, for searchers that take them all."""


class SearchMethod(ABC):
    """Proposes points of the space. A proposal depends on the seed, the number of the trial and the record
    alone: the same seed proposes the same trials.

    Args:
        config: the seed, and the rungs.
    """

    TAKES: ClassVar[frozenset[Form]] = frozenset({"finite", "continuous"})
    """The forms of domain that it can take."""
    SCHEDULERS: ClassVar[tuple[str, ...]] = ("halving", "asha", "hyperband", "none")
    """The schedulers that it works with, the default one first."""
    TAKES_OBJECTIVES: ClassVar[bool] = False
    """Whether it takes several objectives."""
    PACKAGES: ClassVar[tuple[str, ...]] = ()
    """Those that its proposals depend on beside the packages of every sweep."""
    AVOIDS_INFEASIBLE: ClassVar[bool] = True
    """Whether it learns which points are infeasible, and takes others."""

    def __init__(self, config: SweepConfig, space: Space, record: Record) -> None:
        self.config, self.space, self.record = config, space, record
        self.known = KnownTrials(config, space, record)
        self._feasibility = Feasibility(config.seed, self.known)
        self._prior = None
        if config.prior:
            learns = self.AVOIDS_INFEASIBLE
            self._prior = Prior(config.seed, config.prior, space, self.known, learns=learns)

    @abstractmethod
    def propose(self, number: int) -> Iterator[Point]:
        """Candidates for the trial of a number, best first; the first new one is taken."""

    @classmethod
    def check(cls, space: Space) -> None:
        """Refuse a space before the start, by a UserError."""
        return  # any space of these forms

    @classmethod
    def build(cls, config: SweepConfig, space: Space, record: Record) -> RecordSearcher:
        """The searcher for Tune."""
        return RecordSearcher(record, space, cls(config, space, record).candidates, config)

    def candidates(self, number: int) -> Iterator[Point]:
        """What is proposed; a search that avoids infeasible points has those first that are likely to fit."""
        proposed = self.propose(number)
        if self._prior is not None:
            proposed = self._prior.first(number, proposed)
        return self._feasibility.likely_first(number, proposed) if self.AVOIDS_INFEASIBLE else proposed

    def generator(self, number: int, stream: int) -> np.random.Generator:
        """Random numbers for the trial of a number; streams are independent of each other."""
        return np.random.default_rng(np.random.SeedSequence((self.config.seed, number, stream)))

    def model_seed(self, number: int) -> int:
        """The seed of another package's random numbers for the trial of a number."""
        return int(np.random.SeedSequence((self.config.seed, number)).generate_state(1)[0])

    def random_points(self, number: int) -> Iterator[Point]:
        """Candidates for the trial of a number: random points, then the grid of a small space."""
        for attempt in range(RANDOM_ATTEMPTS):
            with contextlib.suppress(InvalidPoint):
                yield self.space.draw((self.config.seed, number, attempt))
        if self.space.size() <= RANDOM_ATTEMPTS**2:
            yield from self.space.grid()


class RecordSearcher(KeptHere, Searcher):
    """A Tune searcher that reads the record and keeps no results of its own.

    Unfinished trials of an interrupted run come first, and those that are opened again; then the defaults,
    the points that the user has chosen, and the anchors of a sweep that refines others. A comparable point
    that an earlier sweep trained without failure is not repeated.

    Args:
        propose: from the number of trials proposed before to candidates for the next one, the best first; the
            first new one is taken.
        config: the seed of every trial, and the number of trials.
    """

    slots: int = 1
    """Trials that may run at a time. Tune asks ahead of need; a proposal made too early would miss the
    results that come in meanwhile."""
    waits: Waits = staticmethod(lambda trial: False)
    """Whether a trial is paused by its scheduler: it leaves its slot."""
    refusal: Callable[[Point], Ending | None] = staticmethod(lambda point: None)
    """How a point ends that is never trained; it is a trial all the same. None of one that is."""
    prepared: Callable[[TrialRow], TrialRow | None] = staticmethod(lambda trial: trial)
    """Of a trial that begins to train, the row to train; None of one that has ended in place of it."""
    is_to_end: Callable[[], bool] = staticmethod(lambda: False)
    """Whether the search must end. It is asked where nothing trains, while points are refused or there is no
    slot, and may take up what else there is to do."""

    def __init__(
        self, record: Record, space: Space, propose: Callable[[int], Iterator[Point]], config: SweepConfig
    ) -> None:
        super().__init__()
        self._record = record
        self._propose = propose
        self._config = config
        self.space = space
        self._to_begin = [trial.number for trial in self._live]
        self._openings = len(record.openings)
        """How many of the trials that were opened again are known here."""
        self._seen = {trial.point.whole for trial in record.searched}
        # A point that failed or was interrupted there has no score to learn from.
        self._known = {trial.point.whole for trial in record.earlier.trials if trial.status != "failed"}

    def search_on(self, method: SearchMethod) -> None:
        """Propose by another method from now on, of other ranges."""
        self.space, self._propose = method.space, method.candidates

    def suggest(self, trial_id: str) -> Any:
        """The next trial's config, None when all slots are taken or many points were refused, FINISHED after
        the last trial, or where the search must end."""
        self._note_openings()
        taken = self._taken()
        if not self.slots and not taken and self.is_to_end():  # Tune may wait here, and do nothing else
            return Searcher.FINISHED
        if self._record.is_held or taken >= self.slots:
            return None
        for number in [*self._to_begin]:
            if not self._is_waiting(trial := self._record.trials[number]):
                self._to_begin.remove(number)
                if (found := self._prepared(trial)) is not None:
                    return _config(found)
        if (begun := self._begin_new()) is not None and (found := self._prepared(begun)) is not None:
            return _config(found)
        must_end = not self._taken() and self.is_to_end()
        # After FINISHED, Tune ends idle processes, which paused and requeued trials still need.
        return None if self._live and not must_end else Searcher.FINISHED

    def _prepared(self, trial: TrialRow) -> TrialRow | None:
        """The same, where a new attempt that this opens is the one that begins."""
        self._note_openings()  # a retry may have been taken up meanwhile
        found = self.prepared(trial)
        self._openings = len(self._record.openings)
        return found

    def _note_openings(self) -> None:
        """Line up the trials that were opened again since."""
        opened, self._openings = self._record.openings[self._openings :], len(self._record.openings)
        self._to_begin += [number for _, number in opened]

    def has_work(self) -> bool:
        """Whether a trial is left to train, and the search need not end. The first new one begins here: Tune
        fails where none comes."""
        if not self._to_begin and (begun := self._begin_new()) is not None:
            self._to_begin.append(begun.number)
        self._note_openings()
        return bool(self._to_begin)

    def _begin_new(self) -> TrialRow | None:
        """Begin the next trial that trains; None where there is none, or none yet. Where nothing trains it is
        looked for up to the end: Tune would wait for it, and do nothing else."""
        while True:
            with self._record.together():
                for _ in range(MOST_REFUSED):
                    if (begun := self._begin_next()) is None:
                        return None
                    if (refused := self.refusal(begun.point)) is None:
                        return begun
                    self._record.end(begun.number, **refused._asdict())
            if self._taken() or self.is_to_end():
                return None

    def _begin_next(self) -> TrialRow | None:
        nth, most = len(self._record.searched), self._most
        for point, origin in self._candidates(nth) if nth < most else ():
            if point.whole not in self._seen and (origin or point.whole not in self._known):
                self._seen.add(point.whole)
                # Defaults may lie outside the ranges, and so may the user's own: they may have been others
                # when these were chosen.
                as_optuna = OptunaPoint() if origin in (DEFAULTS, BY_THE_USER) else None
                with contextlib.suppress(LookupError, ValueError):  # not a point of the space after all
                    as_optuna = optuna_point(self.space, point)
                if as_optuna is not None:
                    return self._record.begin(point, as_optuna, self._config.seed, origin=origin)
        if nth < most:  # the space has no more points
            self._record.plan_trials(nth)
        return None

    @property
    def _most(self) -> float:
        """Trials of the whole search."""
        return next(reversed(self._record.planned_trials), self._config.num_trials or math.inf)

    def _candidates(self, number: int) -> Iterator[tuple[Point, str]]:
        """Candidates and their origin: the defaults, the user's own, the anchors of earlier sweeps, then new
        points."""
        for point in self._record.baselines_to_try():
            yield point, DEFAULTS
        for point in self._record.points_to_try():
            yield point, BY_THE_USER
        for anchor in self._record.earlier.anchors:
            yield anchor.point, anchor.origin
        for point in self._propose(number):
            yield point, ""

    def requeue(self, number: int) -> None:
        """Restart a trial that Tune has ended."""
        self._to_begin.append(number)

    def is_requeued(self, number: int) -> bool:
        """Whether a trial is still to be proposed again."""
        return number in self._to_begin

    def withdraw(self, number: int) -> bool:
        """Propose a requeued trial no more; whether it was still to be proposed."""
        if number not in self._to_begin:
            return False
        self._to_begin.remove(number)
        return True

    @property
    def wanted(self) -> float:
        """Trials that could train now, were there slots for all."""
        ready = sum(not self._is_waiting(self._record.trials[number]) for number in self._to_begin)
        return self._taken() + ready + self._to_come

    @property
    def _to_come(self) -> float:
        """Trials that have not begun."""
        return max(0.0, self._most - len(self._record.searched))

    @property
    def _live(self) -> Sequence[TrialRow]:
        """The unfinished trials of this searcher."""
        return [trial for trial in self._record.live if trial.confirms is None]

    def _taken(self) -> int:
        """Number of slots in use."""
        to_begin = set(self._to_begin)
        return sum(t.number not in to_begin and not self._is_waiting(t) for t in self._live)

    def _is_waiting(self, trial: TrialRow) -> bool:
        """One that the user stops waits for no other, though its weights may have to be trained again."""
        return not self._record.is_to_stop(trial.number) and self.waits(trial)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Nothing to do: the result is in the record."""

    def save(self, checkpoint_path: str) -> None:
        """Nothing to do: a resume builds a new searcher from the record."""

    restore = save


class RerunSearcher(RecordSearcher):
    """Proposes the best trials again with new seeds, unfinished reruns first."""

    def __init__(self, config: SweepConfig, space: Space, record: Record) -> None:
        super().__init__(record, space, lambda nth: iter(()), config)
        self._reruns = record.reruns_to_come()

    @property
    def _live(self) -> Sequence[TrialRow]:
        return self._record.unfinished_reruns

    @property
    def _to_come(self) -> float:
        return len(self._reruns)

    def _begin_new(self) -> TrialRow | None:
        if not self._reruns:
            return None
        number, seed = self._reruns.pop(0)
        trial = self._record.trials[number]
        rerun = self._record.begin(trial.point, trial.optuna, seed, confirms=number)
        if trial.micro_batches:  # more did not fit
            self._record.note_trial(rerun.number, micro_batches=list(trial.micro_batches))
        return rerun


def _config(trial: TrialRow) -> dict[str, Any]:
    return {
        "number": trial.number,
        "trainable": trial.trainable,
        "params": dict(trial.params),
        "fixed": dict(trial.fixed),
        "seed": trial.seed,
        "failures": trial.failures,
        "micro_batch": trial.micro_batch,
        "schedule_from": trial.schedule_from,
    }
