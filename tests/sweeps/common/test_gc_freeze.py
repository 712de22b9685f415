"""What is imported once is kept from the garbage collector."""

from __future__ import annotations

import gc

import pytest

from sweeps.common.gc_freeze import uncollected


def test_nothing_is_collected_within_and_what_was_made_there_is_never_looked_at_again() -> None:
    try:
        with uncollected():
            assert not gc.isenabled()
            made: list[object] = [[]]
        assert gc.isenabled()
        assert not any(each is made for each in gc.get_objects())
    finally:
        gc.unfreeze()
    assert any(each is made for each in gc.get_objects())


def test_the_collector_is_on_again_after_an_import_that_fails() -> None:
    try:
        with pytest.raises(ImportError), uncollected():
            raise ImportError("no such module")
        assert gc.isenabled()
    finally:
        gc.unfreeze()
