"""Settings: fields that become flags, and the bounds of their values."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, make_dataclass

import pytest

from sweeps.common.settings import Settings, field_docs, grouped, setting


@dataclass(frozen=True)
class OfFit:
    epochs: int = setting(9, least=1)
    """Epochs of a trial."""
    hidden: int = 3


@dataclass(frozen=True, kw_only=True)
class Sweep(Settings):
    OF_FIT = ("epochs",)

    trials: int = setting(5, group="search", least=1, most=1000)
    """Trials to run."""
    share: float = setting(0.5, above=0, most=1)
    fit: OfFit = OfFit()
    where: str | None = setting(None, group="place")


def test_those_of_the_fit_stand_among_the_others_and_no_more_of_it_than_named() -> None:
    settings = Sweep.settings()
    assert list(settings) == ["trials", "share", "epochs", "where"]
    assert (settings["epochs"].default, settings["epochs"].doc) == (9, "Epochs of a trial.")
    titles = {title: [each.name for each in held] for title, held in grouped(settings.values()).items()}
    assert titles == {"search": ["trials", "share", "epochs"], "place": ["where"]}


def test_values_are_set_by_name_whichever_object_holds_them() -> None:
    made = Sweep.from_settings(trials=7, epochs=2)
    assert made.flat() == {"trials": 7, "share": 0.5, "epochs": 2, "where": None}
    changed = made.changed(epochs=4, where="here")
    assert changed.flat() == {"trials": 7, "share": 0.5, "epochs": 4, "where": "here"}
    assert made.fit == OfFit(epochs=2), "the first one stays as it was"


@pytest.mark.parametrize(
    ("values", "faults"),
    [
        ({"trials": 1, "share": 1.0, "epochs": 1}, []),
        ({"trials": 0}, ["--trials 0: must be at least 1 and at most 1,000"]),
        ({"share": 0.0}, ["--share 0: must be above 0 and at most 1"]),
        (
            {"trials": 1001, "epochs": 0},
            ["--trials 1001: must be at least 1 and at most 1,000", "--epochs 0: "],
        ),
    ],
)
def test_each_value_out_of_bounds_is_named(values: dict[str, float], faults: list[str]) -> None:
    found = Sweep.from_settings(**values).out_of_bounds()
    assert len(found) == len(faults)
    assert all(fault.startswith(expected) for fault, expected in zip(found, faults, strict=True))


def test_a_setting_that_must_be_given_has_no_default() -> None:
    @dataclass(frozen=True)
    class Needs(Settings):
        name: str

    assert Needs.settings()["name"].default is dataclasses.MISSING


class Documented:
    first: int = 1
    """The first,
    on two lines."""
    second: int = 2
    third: int = 3  # not this, since
    """The third."""
    fourth: str = "#"  # of a line


def test_a_field_without_a_doc_has_an_empty_one() -> None:
    assert field_docs(Documented) == {
        "first": "The first, on two lines.",
        "second": "",
        "third": "The third.",
        "fourth": "of a line",
    }


@dataclass
class Inherited(Documented):
    fifth: int = 5
    """The fifth."""


def test_a_field_has_the_doc_of_the_class_that_defines_it() -> None:
    assert field_docs(Inherited) == {**field_docs(Documented), "fifth": "The fifth."}


def test_a_class_without_source_has_no_docs() -> None:
    assert field_docs(make_dataclass("Made", [("lr", float, 0.1)])) == {}
