"""The best model, scored once on the test rows."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sweeps.analysis.sweep import Sweep
from sweeps.common.yaml_values import load_yaml
from sweeps.config.sweep_config import SweepConfig
from sweeps.execution.output import summary, winner
from sweeps.execution.run_context import RunContext
from sweeps.plan.models import Model
from sweeps.record.record import Record
from sweeps.record.sweep_info import Outcome
from sweeps.record.trials import TrialRow
from sweeps.training.checkpoints import checkpoint_store
from tests.faulty import toy
from tests.support.confirmed import searched
from tests.support.contexts import context_of
from tests.support.servers import sshd
from tests.support.trainables import as_trainable
from tests.support.weighed import FRONT, OBJECTIVES, begin, new, report, weighed


def test_each_winner_is_scored_on_the_test_rows_once_and_how_many_were_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scored = []

    def test(context: object, run: TrialRow, weights: object) -> dict[str, float]:
        scored.append(run.number)
        return {"test_acc": run.number / 10}

    monkeypatch.setattr(winner, "_test", test)
    record = searched(tmp_path, 0.1, 0.9, 0.8)
    for number, often in (
        (1, "scored once"),
        (2, "scored 2 times, for trials 1, 2"),
        (1, "scored 2 times, for"),
    ):
        run = record.trials[number]
        scores = winner._scores(context_of(tmp_path, record, SweepConfig()), run, tmp_path)
        assert (scores, record.about["test"]) == (
            {"test_acc": number / 10},
            {"trial": number, "reported": run.epochs[1].time, "test_acc": number / 10},
        )
        assert summary._how_often(record).startswith(often)
        record = Record.read(tmp_path)
    assert scored == [1, 2]
    record.open_again(1, 0, "by --retry")
    record.report(1, 1, 0.9, {"val_acc": 0.9}, 1.0)
    record.end(1, "finished")
    winner._scores(context_of(tmp_path, record, SweepConfig()), record.trials[1], tmp_path)
    assert scored == [1, 2, 1], "another attempt has other weights"


NO_SPACE: Any = None
NET = Model(as_trainable(toy, "net"), "slopes", NO_SPACE, "")


def driver_with_net(folder: Path, record: Record, **config: Any) -> RunContext:
    """The context of a sweep of the trainable `net`, which has nothing to score on the test rows."""
    record.note_without_test("net")
    return context_of(folder, record, SweepConfig.from_settings(name="s", **config), models=(NET,))


def checkpointed(folder: Path, record: Record, numbers: Sequence[int], epoch: int = 2) -> None:
    """Weights of trials, which hold their number."""
    for number in numbers:
        of = {**record.trials[number].fixed, **record.trials[number].params}
        place = checkpoint_store.folder_of(folder, number)
        checkpoint_store.write(place, epoch, lambda into, n=number: write(into / "weights.pt", n), of)


def write(path: Path, number: int) -> None:
    path.write_text(str(number))


def in_best(folder: Path) -> dict[str, str]:
    """Folder in `best/` to whose weights it has, by the file of the weights and by that of the params."""
    found = {}
    for path in sorted((folder / "best").rglob("weights.pt")):
        params = load_yaml((path.parent / "params.yaml").read_text())
        assert str(params["run"]) == path.read_text()
        found[str(path.parent.relative_to(folder / "best"))] = path.read_text()
    return found


def test_best_holds_each_trial_of_the_front_and_the_knee_at_its_top(tmp_path: Path) -> None:
    record = weighed(tmp_path, FRONT)
    checkpointed(tmp_path, record, [0, 1, 2])
    context = driver_with_net(tmp_path, record, metric=OBJECTIVES)
    assert winner.keep(context) == {}
    assert in_best(tmp_path) == {".": "1", "trial_0000": "0", "trial_0002": "2"}
    metrics = json.loads((tmp_path / "best" / "metrics.json").read_text())
    assert [(each["trial"], each["folder"]) for each in metrics["front"]] == [
        (1, "."),
        (2, "trial_0002"),
        (0, "trial_0000"),
    ]
    assert metrics["front"][0]["values"] == {"acc": 0.85, "size_m": 2.0}
    params = (tmp_path / "best" / "trial_0002" / "params.yaml").read_text()
    assert params.startswith("# trial 2 of sweep s: acc 0.6, size_m 1 in epoch 2\n")
    assert "best/trial_0002/params.yaml" in params
    begin(record, 3)
    report(record, 3, 1, (0.87, 1.9))  # better than the knee in both
    record.end(3, "finished")
    checkpointed(tmp_path, record, [3], epoch=1)
    for number in (0, 1, 2):
        context.plan.storage.remove(number)
    winner.keep(context)
    assert in_best(tmp_path) == {".": "3", "trial_0000": "0", "trial_0002": "2"}, "from best/ as it was"
    assert [best.run for best in Sweep(record).front()] == record.front()


def test_a_metric_of_the_winner_that_is_not_finite_is_null_in_its_file(tmp_path: Path) -> None:
    """JSON has no number for it: readers other than Python's refuse the whole file."""
    record = new(tmp_path, 1, objectives=["acc:max"])
    record.report(0, 1, 0.5, {"acc": 0.5, "f1": math.nan}, 1.0)
    record.end(0, "finished")
    checkpointed(tmp_path, record, [0], epoch=1)
    winner.keep(driver_with_net(tmp_path, record, metric="acc:max"))
    metrics = json.loads((tmp_path / "best" / "metrics.json").read_text())
    assert metrics["metrics"] == {"acc": 0.5, "f1": None}


def test_a_trial_of_the_front_whose_weights_are_lost_is_named_and_the_others_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = weighed(tmp_path, FRONT)
    checkpointed(tmp_path, record, [0, 1])
    winner.keep(driver_with_net(tmp_path, record, metric=OBJECTIVES))
    assert "The weights of trial 2 are lost: best/ is written without them." in capsys.readouterr().out
    assert in_best(tmp_path) == {".": "1", "trial_0000": "0"}


def test_each_trial_of_a_front_on_a_server_has_its_own_weights_in_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process keeps one download at a time."""
    record = weighed(tmp_path, FRONT)
    with sshd(tmp_path / "sshd") as server:
        monkeypatch.setenv("HOME", str(server.home))
        monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
        context = driver_with_net(tmp_path, record, metric=OBJECTIVES, storage=server.url)
        store = context.plan.storage
        store.make()
        for trial in record.trials:
            of = {**trial.fixed, **trial.params}
            store.write(trial.number, 2, lambda into, n=trial.number: write(into / "weights.pt", n), of)
        winner.keep(context)
    assert in_best(tmp_path) == {".": "1", "trial_0000": "0", "trial_0002": "2"}


def led_by_an_unfinished_one(folder: Path) -> Record:
    """A sweep that was interrupted when trial 1, its best, had trained 5 epochs, and went on to epoch 8: its
    weights in `best/` are of epoch 5, those of its newest checkpoint of epoch 7."""
    record = new(folder, 2, objectives=["acc:max"])
    report(record, 0, 1, [0.1])
    record.end(0, "finished")
    checkpointed(folder, record, [0], epoch=1)
    for epoch in range(1, 6):
        report(record, 1, epoch, [epoch / 10])
    checkpointed(folder, record, [1], epoch=5)
    context = driver_with_net(folder, record, metric=["acc:max"])
    context.end.outcome = Outcome.INTERRUPTED
    winner.keep(context)
    assert load_yaml((folder / "best" / "params.yaml").read_text())["epoch"] == 5
    for epoch in range(6, 9):
        report(record, 1, epoch, [epoch / 10])
    checkpointed(folder, record, [1], epoch=7)
    return record


def test_weights_of_an_earlier_epoch_in_best_are_not_those_of_the_best_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The trial went on after a stop, and the next stop came before it could save."""
    record = led_by_an_unfinished_one(tmp_path)
    (best,) = Sweep(record).front()
    assert (best.number, best.epoch) == (1, 8)
    with pytest.warns(UserWarning, match="best in epoch 8; its newest weights are of epoch 7"):
        assert best._weights().parent.name == "epoch_0007"
    winner.keep(driver_with_net(tmp_path, record, metric=["acc:max"]))
    assert "The best weights of trial 1 were not saved" in capsys.readouterr().out
    assert in_best(tmp_path) == {".": "0"}


@pytest.mark.parametrize("outcome", [Outcome.INTERRUPTED, Outcome.LOST])
def test_a_storage_that_is_gone_ends_the_run_in_order(
    outcome: Outcome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So that its result, its report and the command that resumes it are printed."""
    record = led_by_an_unfinished_one(tmp_path)
    context = driver_with_net(tmp_path, record, metric=["acc:max"], storage=str(tmp_path / "gone"))
    context.end.outcome = outcome
    capsys.readouterr()
    assert winner.keep(context) == {}
    assert context.end.outcome == "lost"
    assert ("best/ can't be written: " in context.end.error) is (outcome == "interrupted")
    assert capsys.readouterr().out == "", "nothing is written"


def test_whose_weights_best_holds_is_told_and_the_command_trains_that_trial(tmp_path: Path) -> None:
    record = led_by_an_unfinished_one(tmp_path)
    plan = driver_with_net(tmp_path, record, metric=["acc:max"]).plan
    best = record.trials[1]
    params = tmp_path / "best" / "params.yaml"
    said = dict(summary._best(plan, record, best, {}))
    assert said["Weights"] == f"{tmp_path}/best (of an earlier epoch)"
    assert f"sweeps fit net --params {params}" in said["Retrain"]
    assert "of trial" not in said["Retrain"]
    winner.keep(driver_with_net(tmp_path, record, metric=["acc:max"]))
    record.trials[0].trainable = "other"
    said = dict(summary._best(plan, record, best, {}))
    assert said["Params"] == "lr=0.2"
    assert said["Weights"] == f"{tmp_path}/best (of trial 0)"
    assert said["Retrain"].startswith("of trial 0: ")
    assert f"sweeps fit other --params {params}" in said["Retrain"]
