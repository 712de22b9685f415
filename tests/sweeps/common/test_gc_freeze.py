"""What is imported once is kept from the garbage collector: in processes of their own, of which it is all."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import ROOT

COMMON = "import gc\nfrom sweeps.common.gc_freeze import uncollected\n"


def runs(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMMON + code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_nothing_is_collected_within_and_what_was_made_there_is_never_looked_at_again() -> None:
    runs(
        "with uncollected():\n    assert not gc.isenabled()\n    import decimal\n    made = [[]]\n"
        "assert gc.isenabled()\n"
        "assert not any(each is made for each in gc.get_objects())\n"
        "gc.unfreeze()\n"
        "assert any(each is made for each in gc.get_objects())"
    )


def test_the_collector_is_on_again_after_an_import_that_fails() -> None:
    runs(
        "try:\n    with uncollected():\n        import no_such_module\n"
        "except ModuleNotFoundError:\n    assert gc.isenabled()\n"
        "else:\n    raise AssertionError"
    )


def test_a_collector_that_was_off_stays_off() -> None:
    runs("gc.disable()\nwith uncollected():\n    pass\nassert not gc.isenabled()")
