"""How trials are proposed: what each searcher defines."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.search.feasibility import Feasibility
from sweeps.search.known_trials import KnownTrials
from sweeps.search.record_searcher import RecordSearcher
from sweeps.space.domain import Form
from sweeps.space.point import InvalidPoint, Point, Space

RANDOM_ATTEMPTS = 200
"""Random points before a space counts as exhausted."""
MODEL_ATTEMPTS = 20
"""Points of a model before a random one is taken instead of a duplicate."""


class SearchMethod(ABC):
    """Proposes points of the space. A proposal depends on the seed, the number of the trial and the record
    alone: the same seed proposes the same trials.

    Args:
        config: the seed, and the rungs.
        space: the checked space.
        record: what all trials have reported.
    """

    TAKES: ClassVar[frozenset[Form]]
    """The forms of domain that it can take."""
    SCHEDULERS: ClassVar[tuple[str, ...]]
    """The schedulers that it works with, the default one first."""
    TAKES_OBJECTIVES: ClassVar[bool] = False
    """Whether it takes several objectives."""
    PACKAGES: ClassVar[tuple[str, ...]] = ()
    """Those that its proposals depend on beside the packages of every sweep."""
    AVOIDS_INFEASIBLE: ClassVar[bool] = True
    """Whether it learns which points are infeasible, and takes others."""

    def __init__(self, config: SweepConfig, space: Space, record: Record) -> None:
        self.config, self.space, self.record = config, space, record
        self.known = KnownTrials(space, record)

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
        method = cls(config, space, record)
        if not cls.AVOIDS_INFEASIBLE:
            return RecordSearcher(record, space, method.propose, config)
        propose = Feasibility(config.seed, method.known).constrained(method.propose)
        return RecordSearcher(record, space, propose, config)

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
