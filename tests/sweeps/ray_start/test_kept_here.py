"""What is pickled along with others and read back here is the object itself."""

from __future__ import annotations

import gc
import pickle
from typing import Any

from sweeps.ray_start.kept_here import KeptHere


class Ours(KeptHere):
    """Holds what can't be pickled."""

    held: Any = None


def test_a_copy_is_the_object_itself_and_none_where_there_is_no_such_object() -> None:
    ours = Ours()
    ours.held = lambda: 1
    packed = pickle.dumps(ours)
    assert pickle.loads(packed) is ours
    del ours
    gc.collect()
    assert pickle.loads(packed) is None
