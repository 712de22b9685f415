"""Name the version of a library in the failure of a test of what it does not document."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib.metadata import version


@contextlib.contextmanager
def relied_on(library: str) -> Iterator[None]:
    """Check within it what the program takes from a library beyond its documentation."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"{library} {version(library)} has changed it: {error!r}") from error
