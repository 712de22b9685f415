"""The command `sweeps`. It stands outside of the package, whose name W&B's package `sweeps` has too."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from pathlib import Path


def main() -> int:
    """The whole program; the exit status."""
    found = importlib.util.find_spec("sweeps")
    if found is not None and found.origin and Path(found.origin).with_name("bayes_search.py").exists():
        pip = shlex.join([sys.executable, "-m", "pip"])
        print(
            "error: W&B's package sweeps (of wandb[sweeps]) is installed over this program: "
            f"{pip} uninstall -y sweeps && {pip} install --force-reinstall --no-deps raysweeps",
            file=sys.stderr,
        )
        return 2
    from sweeps.__main__ import main as program

    return program()
