"""A trainable whose loader knows its position in batches of its own, as torchdata's StatefulDataLoader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

from tests.faulty import hungry
from tests.faulty.hungry import METRIC as METRIC
from tests.faulty.hungry import MODE as MODE
from tests.faulty.hungry import Params as Params
from tests.faulty.hungry import build_model as build_model


class Positioned(DataLoader[Any]):
    """Begins at the batch of its state."""

    _batch = 0

    def state_dict(self) -> dict[str, Any]:
        return {"_num_yielded": self._batch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._batch = state["_num_yielded"]

    def __iter__(self) -> Any:
        return self._rest(super().__iter__())

    def _rest(self, batches: Iterator[Any]) -> Iterator[Any]:
        first, self._batch = self._batch, 0
        for batch, rows in enumerate(batches):
            if batch >= first:
                self._batch = (batch + 1) % len(self)
                yield rows


class Rows(hungry.Rows):
    """The same rows."""

    def train_dataloader(self) -> DataLoader[Any]:
        return Positioned(self._rows, self.batch_size)


def build_data(params: Params) -> Rows:
    return Rows(params)
