"""One fast training run, multiplied into many trials, pruned, recorded and learned from."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

_TRAINING = Path(__file__).absolute().parents[1] / "training" / "__init__.py"


def _refuse_other_training() -> None:
    """What stands on `training` can't be imported beside another one: say so before it fails.

    A project with a `training.py` of its own is a common thing, and the folder where a command is typed
    comes first on the path.
    """
    if not _TRAINING.is_file():
        return  # on another PC, where Ray unpacks each package by itself
    spec = find_spec("training")
    if spec is None or spec.origin is None or Path(spec.origin).samefile(_TRAINING):
        return
    fault = f"{spec.origin} hides training, which this program trains with: rename yours"
    if sys.argv[:1] == ["-m"]:  # `python -m sweeps.run`, which is not running yet
        print(f"error: {fault}", file=sys.stderr)
        raise SystemExit(2)
    raise ImportError(fault)


_refuse_other_training()
