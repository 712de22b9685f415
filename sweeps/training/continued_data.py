"""Training data of which an epoch reads some batches, and the next epoch those behind them.

A pass over the data is longer or shorter than such an epoch. It draws its order, and whatever the loader
draws in this process, from numbers of its own: a resumed run reads the pass again up to its place, and goes
on with the same rows.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from lightning.pytorch.utilities import CombinedLoader

from sweeps.common.errors import CannotTrain
from sweeps.training.lightning_internals import mode_of
from sweeps.training.torch_state import random_states, restore_random_states, seed_again


@dataclass
class Place:
    """A place in the data, the next one to read."""

    passes: int = 0
    """Over all of it, that have ended."""
    batches: int = 0
    """That were read since."""


class ContinuedLoader(CombinedLoader):
    """Goes on with each epoch where the one before has stopped.

    Args:
        given: what a model or a data module gives: one loader, or several.
        interval: batches of an epoch; below 1, as in Lightning, the share of a pass.
        steps: whole batches of a step of the optimizer, which must not be cut at the end of an epoch, and
            micro-batches of a batch.
        seed: of the run.
        place: to begin at; is kept up to date.
    """

    def __init__(
        self, given: Any, interval: float | int, steps: tuple[int, int], seed: int, place: Place
    ) -> None:
        is_combined = isinstance(given, CombinedLoader)
        super().__init__(given.iterables if is_combined else given, mode_of(given, "max_size_cycle"))
        self._interval, self._seed, self._place = interval, seed, place
        self._accumulation, self._parts = steps
        self._numbers: dict[str, Any] | None = None
        """The random numbers to come of this pass; None before it."""
        self._batches = 0
        """Of this epoch, so far."""

    def __iter__(self) -> Self:
        """Begin an epoch."""
        self._batches = 0
        if self._numbers is None:
            to_read, self._place.batches = self._place.batches, 0
            with self._own_numbers():
                self._begin_pass()
                for _ in range(to_read):
                    self._read()
        return self

    def __len__(self) -> int:
        """Batches of an epoch."""
        batches = self._interval if isinstance(self._interval, int) else self._share()
        if batches % (self._accumulation * self._parts):
            whole = batches // self._parts
            more = (whole // self._accumulation + 1) * self._accumulation
            raise CannotTrain(
                f"val_check_interval: {whole} batches are no multiple of accumulate_grad_batches "
                f"{self._accumulation}, and the last step of each epoch would have too few; give "
                f"--val-check-interval {more}"
            )
        return batches

    def _share(self) -> int:
        """Batches of a share of a pass."""
        if (batches := self._pass_batches()) == math.inf:
            raise CannotTrain(
                f"val_check_interval {self._interval:g}: the training data does not say how long it is; "
                "give a number of batches"
            )
        return max(1, int(batches * self._interval))

    def __next__(self) -> Any:
        if self._batches >= len(self):
            raise StopIteration
        with self._own_numbers():
            batch, _, which = self._read()
        self._batches += 1
        return batch, self._batches - 1, which

    def _read(self) -> Any:
        """The next batch, of the next pass where this one has ended."""
        found = None
        if not self._place.batches:
            self._set_epochs()
        if self._place.batches < self._pass_batches():
            found = self._next_of_pass()
        if found is None and self._place.batches:
            self._place.passes, self._place.batches = self._place.passes + 1, 0
            self._begin_pass()
            found = self._next_of_pass()
        if found is None:  # there is no row at all
            raise StopIteration
        self._place.batches += 1
        return found

    def _begin_pass(self) -> None:
        seed_again(int(np.random.SeedSequence((self._seed, self._place.passes, 3)).generate_state(1)[0]))
        self._set_epochs()
        super().__iter__()

    def _set_epochs(self) -> None:
        """Let samplers that shuffle by a number of the epoch take that of the pass; Lightning has told them
        its own."""
        for loader in self.flattened:
            for sampler in (getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)):
                for each in (sampler, getattr(sampler, "sampler", None)):
                    if callable(set_epoch := getattr(each, "set_epoch", None)):
                        set_epoch(self._place.passes)

    def _pass_batches(self) -> float:
        """Batches of a pass, within its limit; infinite where that is not known."""
        try:
            return super().__len__()
        except TypeError:  # infinity is no length
            return math.inf

    def _next_of_pass(self) -> Any:
        """The next batch of the pass; None behind the last one."""
        try:
            return super().__next__()
        except StopIteration:
            return None

    @contextlib.contextmanager
    def _own_numbers(self) -> Iterator[None]:
        before = random_states()
        if self._numbers is not None:
            restore_random_states(self._numbers)
        try:
            yield
        finally:
            self._numbers = random_states()
            restore_random_states(before)
