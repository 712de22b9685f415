"""Objects of this process that Tune pickles along with others, though it uses no copy of them."""

from __future__ import annotations

import weakref
from typing import Any

_HERE: weakref.WeakValueDictionary[int, KeptHere] = weakref.WeakValueDictionary()


class KeptHere:
    """An object whose copy is the object itself, unpickled in this process, and None in another."""

    def __reduce__(self) -> tuple[Any, ...]:
        _HERE[id(self)] = self
        return _kept_here, (id(self),)


def _kept_here(key: int) -> KeptHere | None:
    return _HERE.get(key)
