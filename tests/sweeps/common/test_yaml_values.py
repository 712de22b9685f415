"""Names and values of a YAML file."""

from __future__ import annotations

import json
import math

import pytest
import yaml

from sweeps.common.yaml_values import dump_yaml, hyperparameter, load_yaml, nearest


def test_the_nearest_spelling_is_offered_only_when_it_is_near() -> None:
    assert nearest("fashion_cn", ["digits_mlp", "fashion_cnn"]) == " Did you mean 'fashion_cnn'?"
    assert nearest("xyz", ["digits_mlp", "fashion_cnn"]) == ""


@pytest.mark.parametrize(
    "text", ["1:30", "1:30:00", "yes", "no", "on", "Off", "y", "2024-01-31", "0x1F", "0b1"]
)
def test_what_only_yaml_1_1_takes_for_a_number_or_a_truth_value_is_text(text: str) -> None:
    assert load_yaml(f"a: {text}") == {"a": text}


@pytest.mark.parametrize(
    "text",
    ["!!int 0x10", "!!int [1]", "!!float x", "!!bool maybe", "!!timestamp x"],
)
def test_a_value_that_does_not_fit_its_tag_is_no_yaml(text: str) -> None:
    with pytest.raises(yaml.YAMLError, match="a value does not fit its tag"):
        load_yaml(f"a: {text}")
    assert hyperparameter(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [("010", 10), ("-7", -7), ("1e-3", 0.001), (".5", 0.5), ("True", True), ("~", None), ("", None)],
)
def test_a_number_and_null_are_read_as_people_write_them(text: str, value: object) -> None:
    found = load_yaml(f"a: {text}")["a"]
    assert (found, type(found)) == (value, type(value))
    assert load_yaml("a: &b {c: 1}\nd: {<<: *b}")["d"] == {"c": 1}


@pytest.mark.parametrize("text", ["#fff", "solve issue #3", "one line\nand another", "a '#' # b"])
def test_what_is_typed_without_quotes_keeps_its_hash_and_its_lines(text: str) -> None:
    assert hyperparameter(text) == text
    assert hyperparameter(f"[{json.dumps(text)}]") == [text]
    assert hyperparameter(json.dumps(text)) == text


@pytest.mark.parametrize(
    ("text", "value"), [("a#b", "a#b"), ("5 # five", 5), ("{a: 1,\n b: 2}", {"a": 1, "b": 2}), (" ", None)]
)
def test_other_values_are_read_as_yaml(text: str, value: object) -> None:
    assert hyperparameter(text) == value


@pytest.mark.parametrize(
    "text", ["08", "010", "1e-3", "1:30", "no", "null", "~", "2024-01-31", "0x1F", ".inf", ""]
)
def test_a_text_stays_text_in_a_file_here_and_for_others(text: str) -> None:
    written = dump_yaml({"a": text, "b": 1e-05, "c": math.inf})
    assert load_yaml(written) == yaml.safe_load(written) == {"a": text, "b": 1e-05, "c": math.inf}
