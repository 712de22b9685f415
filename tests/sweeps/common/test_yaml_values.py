"""Names and values of a YAML file."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass

from sweeps.common.yaml_values import field_docs, nearest


def test_the_nearest_spelling_is_offered_only_when_it_is_near() -> None:
    assert nearest("fashion_cn", ["digits_mlp", "fashion_cnn"]) == " Did you mean 'fashion_cnn'?"
    assert nearest("xyz", ["digits_mlp", "fashion_cnn"]) == ""


class Documented:
    first: int = 1
    """The first,
    on two lines."""
    second: int = 2
    third: int = 3
    """The third."""


def test_a_field_without_a_doc_has_an_empty_one() -> None:
    assert field_docs(Documented) == {
        "first": "The first, on two lines.",
        "second": "",
        "third": "The third.",
    }


@dataclass
class Inherited(Documented):
    fourth: int = 4
    """The fourth."""


def test_a_field_has_the_doc_of_the_class_that_defines_it() -> None:
    assert field_docs(Inherited) == {**field_docs(Documented), "fourth": "The fourth."}


def test_a_class_without_source_has_no_docs() -> None:
    assert field_docs(make_dataclass("Made", [("lr", float, 0.1)])) == {}
