"""What a record says of its sweep, with types."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from sweeps.common.objective import Objective
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.record.sweep_info import Confirmation, HeldOutScore, ParentInfo, Run, Steered, parse
from tests.support.kinds import begun


def test_what_a_record_does_not_say_has_a_default() -> None:
    info = parse({"mode": "min"})
    assert (info.objective, info.name, info.trainables, info.seed) == (Objective("score", "min"), "", (), 0)
    assert (info.confirm, info.test, info.tests, info.runs, info.parents) == (None, None, (), (), ())
    assert info.settings == SweepConfig()
    assert info.identity["space"] == info.identity["code"] == {}


def test_the_test_score_is_that_of_the_objective() -> None:
    test = parse({"mode": "max", "test": {"trial": 3, "test_acc": 0.5, "test_loss": 2.0}}).test
    assert test is not None
    assert [test.score(metric) for metric in ("val_acc", "loss", "val_f1")] == [0.5, 2.0, None]


def test_a_range_of_what_is_a_setting_too_is_a_range(tmp_path: Path) -> None:
    record, ranges = begun(tmp_path / "s"), {"patience": "1..5"}
    record.note_steered(Steered(["set", "patience=1..5"], "as asked", 4.0, ranges=ranges))
    record.note_steered(Steered(["set", "patience=5"], "as asked", 5.0))
    assert Record.read(tmp_path / "s").info.range_changes == ((4.0, ranges),)


@pytest.mark.parametrize(
    ("trainable", "names", "several"),
    [("cnn", ("cnn",), False), (["cnn", "mlp"], ("cnn", "mlp"), True)],
)
def test_one_trainable_or_several(trainable: str | list[str], names: tuple[str, ...], several: bool) -> None:
    info = parse({"mode": "max", "trainable": trainable})
    assert (info.trainables, info.is_of_several) == (names, several)


def test_what_a_record_of_another_version_says_more_is_left_out() -> None:
    parent = {"name": "wide", "folder": "results/wide", "started": 5.0, "colour": "blue"}
    assert parse({"mode": "max", "parents": [parent]}).parents == (ParentInfo("wide", "results/wide", 5.0),)


def test_what_is_noted_is_there_with_its_type_and_read_again(tmp_path: Path) -> None:
    record = begun(tmp_path / "s")
    record.note("confirm", {"top": 2, "seeds": 3})
    record.note_run(Run(1.0, 6, ["lr: its range"], forced=True))
    record.note_test(HeldOutScore(4, {"test_acc": 0.8}))
    record.note_test(HeldOutScore(2, {"test_acc": 0.9}))
    record.note_test(HeldOutScore(2, {"test_acc": 0.9}))
    again = Record.read(tmp_path / "s")
    for info in (record.info, again.info):
        assert info.confirm == Confirmation(top=2, seeds=3)
        assert info.runs == (Run(1.0, 6, ["lr: its range"], forced=True),)
        assert [test.run for test in info.tests] == [4, 2]
        assert info.test == HeldOutScore(2, {"test_acc": 0.9})
    assert again.about["test"] == {"trial": 2, "test_acc": 0.9}
    assert list(again.about["runs"][0]) == [field.name for field in dataclasses.fields(Run)]
