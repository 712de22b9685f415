"""Numbers, paths and commands, as messages have them."""

from __future__ import annotations

import pytest

from sweeps.common.formatting import size


@pytest.mark.parametrize(
    ("bytes_", "words"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1234, "1.23 kB"),
        (999_499, "999 kB"),
        (999_600, "1 MB"),
        (12_345_678, "12.3 MB"),
        (250e9, "250 GB"),
        (3.4e12, "3.4 TB"),
        (0.4, "0 B"),
    ],
)
def test_a_size_is_in_powers_of_ten_and_three_digits(bytes_: float, words: str) -> None:
    assert size(bytes_) == words
