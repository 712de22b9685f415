"""The resources of a trial, as Ray is asked for them: never on a PC where nothing is to run."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ray.tune import PlacementGroupFactory
from ray.util.placement_group import PlacementGroup, placement_group

_COUNTER = itertools.count()


_HERE: weakref.WeakValueDictionary[int, Place] = weakref.WeakValueDictionary()


def not_on(away: Collection[str]) -> dict[str, str]:
    """Says to Ray: on none of these PCs, which are its ids."""
    return {"ray.io/node-id": f"!in({','.join(sorted(away))})"}


class Place(PlacementGroupFactory):
    """Resources of a trial. All are equal for Tune, whichever PCs are away: processes stay warm.

    Tune takes it to pieces and puts it together again with the class of the trial; in this process that gives
    the same object, which knows who is away now.
    """

    def __init__(self, bundles: Sequence[Mapping[str, float]], away: Callable[[], Collection[str]]) -> None:
        super().__init__([dict(bundle) for bundle in bundles])
        self._key = next(_COUNTER)
        self._away = away
        _HERE[self._key] = self

    def __reduce__(self) -> tuple[Any, ...]:
        return _put_together, (self._key, self.bundles)

    def to_placement_group(self) -> PlacementGroup:
        """Ask for one."""
        away = self._away()
        where = [not_on(away)] * len(self.bundles) if away else None
        group: PlacementGroup = placement_group(self.bundles, bundle_label_selector=where)
        return group


def _put_together(key: int, bundles: list[dict[str, float]]) -> PlacementGroupFactory:
    return _HERE.get(key) or PlacementGroupFactory(bundles)
