"""Metrics in what programs print."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from sweeps.common.errors import CannotTrain
from sweeps.kinds.commands.printed_metrics import (
    MOST_BYTES,
    Found,
    GrowingFile,
    Lines,
    OverwrittenError,
    ProgramEpochs,
    Reports,
    metrics_in,
)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("val_acc=0.91 epoch=3", {"val_acc": 0.91, "epoch": 3}),
        ("epoch 3/10: loss: .5 - val/acc: 9e-1", {"loss": 0.5, "val/acc": 0.9, "epoch": 3}),
        ("epoch 1.50: val_acc=0.91 (epoch 2. of 3)", {"val_acc": 0.91, "epoch": 2}),
        ("epoch 0.5 val_acc=0.91", {"val_acc": 0.91}),
        ("epoch 3.0: val_acc=0.91", {"val_acc": 0.91, "epoch": 3}),
        ("val_acc=0.91 (time per epoch 3.0s, epoch 1.00e+01)", {"val_acc": 0.91}),
        ("val_acc=0.91 (time per epoch 12.0 s)", {"val_acc": 0.91}),
        ("Epoch 3: val_acc=0.91 (time per epoch: 12.5 s)", {"val_acc": 0.91, "epoch": 3}),
        ("epoch=3 s=0.5 (12.0 sec per epoch: 12 ms)", {"epoch": 3, "s": 0.5}),
        ("Epoch [2/30], Step [100/600], Loss: 0.25", {"Loss": 0.25, "epoch": 2}),
        ('{"val_acc": "0.9", "version": "1.2.3", "epoch": "2"}', {"val_acc": 0.9, "epoch": 2}),
        ('{"val": {"acc": 0.9}, "epoch": 2, "done": true, "note": "x=3"}', {"val.acc": 0.9, "epoch": 2}),
        (
            "{'eval_loss': 0.5, 'eval_acc': '0.9', 'epoch': 1.5}",
            {"eval_loss": 0.5, "eval_acc": 0.9, "epoch": 1.5},
        ),
        ("acc=tensor(0.5000, device='cuda:0') f1: np.float64(0.25)", {"acc": 0.5, "f1": 0.25}),
        ("step=15, ep_return=[15.], b=tensor([2]) c=[0.5, 1] d=[0.5", {"step": 15, "ep_return": 15, "b": 2}),
        ("accuracy: 91.5%, loss=-inf", {"accuracy": 91.5, "loss": -math.inf}),
        ("Average loss: 0.0543, Accuracy: 9500/10000 (95%)", {"loss": 0.0543, "Accuracy": 0.95}),
        ("correct = 3 / 4, loss: 0.25/0.5, epoch: 3/10", {"correct": 0.75, "loss": 0.25, "epoch": 3}),
        ("seen: 12/10, none: 0/0, saved: 2/20/2024", {"seen": 1.2, "none": 0, "saved": 2}),
        ("step: 5/100 Fold: 1/5 acc: 1/2", {"step": 5, "Fold": 1, "acc": 0.5}),
        ("acc: 0.7 (best acc: 0.8)", {"acc": 0.8}),
        ('[1] "epoch 2 val_rmse: 0.5"', {"val_rmse": 0.5, "epoch": 2}),  # R's print(paste(...))
        ('[1] "{\\"val_rmse\\": 0.5}"', {"val_rmse": 0.5}),
        ('{"acc": 0.9, "note": "[1] loss=3"}', {"acc": 0.9}),
        ("12:30:45 INFO time=3s version=1.2.3 shape=1,2 path=/a=b", {}),
    ],
)
def test_numbers_by_their_names(line: str, expected: dict[str, float]) -> None:
    assert metrics_in(line) == expected


def test_a_loss_that_is_no_number() -> None:
    assert math.isnan(metrics_in("loss: nan")["loss"])


def reports(lines: Sequence[str], *wanted: str, are_metrics: bool = False) -> list[Found]:
    found = Reports(wanted, ("lr",))
    each = [report for line in lines for report in found.add(metrics_in(line), are_metrics=are_metrics)]
    return [*each, *found.rest()]


def test_a_line_with_the_metric_is_a_report() -> None:
    lines = ["seed=3 loss=9", "epoch 1", "loss=2 lr=0.1", "acc=0.5 f1=0.4", "acc=0.6 epoch=2"]
    assert reports(lines, "acc") == [Found({"acc": 0.5, "f1": 0.4}, 1), Found({"acc": 0.6}, 2, True)]


def test_an_epoch_is_that_of_one_report() -> None:
    lines = ["epoch 3", "acc=0.7", "Best acc: 0.8"]
    assert reports(lines, "acc") == [Found({"acc": 0.7}, 3), Found({"acc": 0.8}, None)]


def test_a_report_waits_for_the_other_metrics() -> None:
    lines = ["size=7", "acc=0.5", "noise=1", "ms=3", "acc=0.6 ms=4", "size=8", "acc=0.7"]
    assert reports(lines, "acc", "ms") == [
        Found({"acc": 0.5, "ms": 3}, None),
        Found({"acc": 0.6, "ms": 4}, None),
        Found({"acc": 0.7}, None),
    ]


def test_all_numbers_of_a_file_of_metrics_are_metrics() -> None:
    assert reports(["loss=2", "lr=0.1", "acc=0.5"], "acc", are_metrics=True) == [
        Found({"loss": 2, "acc": 0.5}, None)
    ]


def test_what_comes_behind_the_report_of_its_epoch_is_not_of_the_next_one() -> None:
    lines = ["acc=0.5 epoch=1", "f1=0.4 epoch=1", "loss=2 epoch=2", "acc=0.6 epoch=2"]
    assert reports(lines, "acc", are_metrics=True) == [
        Found({"acc": 0.5}, 1, True),
        Found({"loss": 2, "acc": 0.6}, 2, True),
    ]


def test_a_file_may_be_made_anew_before_its_first_line(tmp_path: Path) -> None:
    file = tmp_path / "metrics.jsonl"
    file.touch()
    found = GrowingFile(file)
    file.unlink()
    assert [*found.new(), *found.new(at_the_end=True)] == []
    file.write_text("acc=0.5\n")
    assert [*found.new()] == ["acc=0.5"]
    file.unlink()
    with pytest.raises(OverwrittenError):
        next(found.new())


def test_lines_come_in_parts() -> None:
    lines = Lines()
    parts = [b"a=1\nb", b"=2\r10%\x08\x08c=3", b"\n\x1b[32mgr\xc3", b"\xbcn\x1b[0m\xff"]
    assert [line for part in parts for line in lines.add(part)] == ["a=1", "b=2", "10%", "c=3"]
    assert [*lines.end()] == ["gr\u00fcn\ufffd"]


def test_a_huge_line_is_read_in_parts() -> None:
    lines = Lines()
    found = [line for _ in range(40) for line in lines.add(b"x" * 65_536)] + [*lines.end(b" acc=1")]
    assert max(map(len, found)) <= 2 * MOST_BYTES
    assert found[-1].endswith(" acc=1")


def test_an_evaluation_inside_of_an_epoch_counts_between_those_at_the_end_of_one() -> None:
    """As the Trainer of Hugging Face prints those of `eval_steps`, and behind them the last or best one."""
    halves = [f"{{'eval_loss': '0.{9 - n}', 'epoch': '{n / 2:g}'}}" for n in range(1, 6)]
    found = reports([*halves, "{'eval_loss': '0.3', 'epoch': '2.5'}", "eval_loss = 0.4"], "eval_loss")
    epochs = ProgramEpochs("eval_loss")
    assert [(each.epoch, epochs.take(each)) for each in found] == [
        (0.5, True),
        (1, True),
        (1.5, True),
        (2, True),
        (2.5, True),
        (2.5, False),
        (None, False),
    ]


def test_a_part_of_an_epoch_that_a_checkpoint_knows_is_no_new_one() -> None:
    epochs = ProgramEpochs("acc", 2.5, are_named=True)
    told = [Found({"acc": 0.5}, epoch, True) for epoch in (1.5, 2, 2.5, 3, 3.5)]
    assert [epochs.take(each) for each in told] == [False, False, False, True, True]


def test_what_a_checkpoint_knows_may_be_reported_again() -> None:
    """By a program that goes on from an earlier epoch, of which it had written a checkpoint last."""
    epochs = ProgramEpochs("acc", 6, are_named=True, before=1)
    told = [(7, 0.7), (6, 0.6), (7, 0.71), (8, 0.8)]
    assert [epochs.take(Found({"acc": acc}, epoch, True)) for epoch, acc in told] == [
        True,
        False,
        False,
        True,
    ]
    with pytest.raises(CannotTrain, match="epoch 7 was reported behind epoch 8"):
        epochs.take(Found({"acc": 0.9}, 7, True))
