"""Names in a storage."""

from __future__ import annotations

from sweeps.storage.protocol import new_name, numbers_in


def test_the_numbers_of_trials_are_those_of_their_folders_in_order() -> None:
    names = ["trial_0010", "trial_0002", "trial_12345", "trial_", "trial_3.part", "best", ".trial_0004"]
    assert numbers_in(names) == [2, 10, 12345]


def test_a_new_name_is_hidden_and_is_no_trials_or_anothers() -> None:
    first, second = new_name(), new_name()
    assert first != second
    assert first.startswith(".")
    assert numbers_in([first, second]) == []
