"""The model of a sweep's best trial: from `best/`, or from a checkpoint while the sweep has none."""

from __future__ import annotations

import dataclasses
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import trainables.digits_mlp as digits
from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis.sweep import Best, Sweep
from sweeps.common.errors import UserError
from sweeps.record.record import Record
from sweeps.storage import retention
from sweeps.training.checkpoints import checkpoint_store
from sweeps.training.config import FitConfig
from sweeps.training.report import Report
from sweeps.training.runs.fit_loop import Fit
from tests.conftest import propose
from tests.support.trainables import as_trainable, run_through
from tests.support.weighed import FRONT, report, weighed

CONFIG = FitConfig(max_epochs=3, metric=digits.METRIC, mode=digits.MODE, threads=1, precision="32-true")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sweep of two trials, really trained; the first has ended and has a checkpoint, the second is at
    its start. No `best/` yet."""
    folder = tmp_path_factory.mktemp("sweeps") / "s"
    folder.mkdir()
    about = {"sweep": "s", "trainable": "digits_mlp", "metric": digits.METRIC}
    record = Record.create(folder, "s", digits.MODE, about)
    train(record, {"lr": 0.2, "hidden": 16}, {"batch_size": 32})
    record.end(0, "finished")
    propose(record, {"lr": 0.3, "hidden": 8}, trainable="digits_mlp", fixed={"batch_size": 32})
    return folder


def train(record: Record, swept: dict[str, Any], fixed: dict[str, Any]) -> None:
    number = propose(record, swept, trainable="digits_mlp", fixed=fixed, seed=3).number
    fit = Fit(as_trainable(digits), digits.Params(**{**fixed, **swept}), dataclasses.replace(CONFIG, seed=3))

    def heard(epoch: Report) -> bool:
        record.report(number, epoch.epoch, epoch.score, epoch.metrics, epoch.seconds)
        return True

    run_through(fit, heard)
    of_trial = checkpoint_store.folder_of(record.folder, number)
    checkpoint_store.write(of_trial, 3, fit.save, {**fixed, **swept})


@pytest.fixture
def sweep(trained: Path, tmp_path: Path) -> Path:
    """A copy of it, to spoil."""
    return Path(shutil.copytree(trained, tmp_path / "s"))


def crown(sweep: Path, trial: int = 0, checkpoint: Path | None = None, of: int = 0) -> Path:
    """Leave a `best/`, and no checkpoint of that run."""
    best = sweep / "best"
    best.mkdir()
    of_trial = checkpoint_store.folder_of(sweep, of)
    shutil.copy((checkpoint or of_trial / "epoch_0003") / "weights.pt", best)
    (best / "params.yaml").write_text(yaml.safe_dump({"trial": trial, "trainable": "digits_mlp"}))
    shutil.rmtree(of_trial)
    return best


def best_of(sweep: Path) -> Best:
    found = analysis_sweep.load(sweep).best()
    assert found is not None
    return found


def accuracy(best: Best) -> float:
    """Of the model on the rows by which the sweep judged."""
    model, data = best.model(), digits.build_data(digits.Params())
    assert not model.training
    inputs, targets = next(iter(data.val_dataloader()))
    with torch.no_grad():
        return float((model(inputs).argmax(dim=1) == targets).float().mean())


def test_the_model_of_best_predicts_as_well_as_the_record_says(sweep: Path) -> None:
    crown(sweep)
    best = best_of(sweep)
    assert dict(best.params) == {"batch_size": 32, "lr": 0.2, "hidden": 16}
    assert best.score > 0.5
    assert accuracy(best) == pytest.approx(best.score, abs=0.004)  # of 300 rows


def test_before_there_is_a_best_folder_the_newest_checkpoint_serves(sweep: Path) -> None:
    best = best_of(sweep)
    assert accuracy(best) == pytest.approx(best.score, abs=0.004)


@pytest.mark.parametrize("crowned", ["best/", "checkpoint"])
def test_of_a_confirmed_trial_all_is_of_the_run_whose_weights_it_has(crowned: str, sweep: Path) -> None:
    record = Record.reopen(sweep)
    record.note("confirm", {"top": 1, "seeds": 2})
    record.end(1, "failed")
    for seed, score in ((11, 0.3), (12, 0.25)):
        run = record.begin(record.trials[0].point, record.trials[0].optuna, seed, confirms=0)
        record.report(run.number, 1, score, {digits.METRIC: score}, 1.0)
        record.end(run.number, "finished")
    checkpoint_store.folder_of(sweep, 0).rename(checkpoint_store.folder_of(sweep, 2))
    if crowned == "best/":
        best = crown(sweep, of=2)
        (best / "params.yaml").write_text(yaml.safe_dump({"trial": 0, "run": 2, "trainable": "digits_mlp"}))
    found = best_of(sweep)
    assert (found.number, found.run, found.seed, found.score, found.epoch) == (0, 2, 11, 0.3, 1)
    assert found.confirmed is not None
    assert (found.confirmed.mean, found.confirmed.scores) == (pytest.approx(0.275), (0.3, 0.25))
    assert accuracy(found) > 0.5, "it is the trained one"


def test_of_a_confirmed_front_each_trial_has_its_rerun_whose_weights_best_holds(tmp_path: Path) -> None:
    record = weighed(tmp_path, FRONT)
    record.note("confirm", {"top": 1, "seeds": 2})
    for number, values in enumerate(FRONT):
        for seed in (11, 12):
            trial = record.trials[number]
            run = record.begin(trial.point, trial.optuna, seed, confirms=number)
            report(record, run.number, 1, values)
            record.end(run.number, "finished")
    first, *others = record.front()
    assert {first, *others} == {0, 1, 2}
    held = {number: record.reruns_of(number)[1].number for number in (0, 1, 2)}
    folders = {first: tmp_path / "best", **{n: tmp_path / "best" / f"trial_{n:04d}" for n in others}}
    for number, folder in folders.items():
        folder.mkdir()
        (folder / "params.yaml").write_text(yaml.safe_dump({"trial": number, "run": held[number]}))
    found = Sweep(record).front()
    assert [(each.number, each.run) for each in found] == [(n, held[n]) for n in (first, *others)]
    assert all(each.confirmed is not None and each.confirmed.number == each.number for each in found)
    for number, folder in folders.items():
        assert retention.best_folder_of(tmp_path, number, held[number], 1) == folder
        assert retention.best_folder_of(tmp_path, number, number, 2) is None


def test_weights_of_an_earlier_epoch_are_said_to_be(sweep: Path) -> None:
    record = Record.reopen(sweep)
    record.report(1, 1, 0.99, {digits.METRIC: 0.99}, 1.0)
    record.end(1, "pruned")
    of_trial = checkpoint_store.folder_of(sweep, 1)

    def fill(part: Path) -> None:
        torch.save(digits.build_model(digits.Params(hidden=8)).state_dict(), part / "weights.pt")

    checkpoint_store.write(of_trial, 1, fill, {"batch_size": 32, "lr": 0.3, "hidden": 8})
    (of_trial / "epoch_0001").rename(of_trial / "epoch_0000")
    with pytest.warns(UserWarning, match=r"trial 1 was best in epoch 1; its newest weights are of epoch 0"):
        best_of(sweep).model()


def test_a_best_folder_of_a_trial_that_is_the_best_no_more_is_not_taken(sweep: Path) -> None:
    crown(sweep, trial=7)
    with pytest.raises(UserError, match=r"s: no weights of trial 0, in best/ or as a checkpoint"):
        best_of(sweep).model()


def test_without_weights_it_says_so(sweep: Path) -> None:
    shutil.rmtree(sweep / "checkpoints")
    with pytest.raises(
        UserError, match=r"no weights of trial 0, in best/ or as a checkpoint: not written yet, or removed"
    ):
        best_of(sweep).model()


def test_a_command_has_no_model_and_none_is_said_to_be_removed(sweep: Path) -> None:
    shutil.rmtree(sweep / "checkpoints")
    best = dataclasses.replace(best_of(sweep), trainable="command:true {x}")
    with pytest.raises(UserError, match="a LightningModule is needed here, and this is a command"):
        best.model()


def test_a_broken_checkpoint_is_named(sweep: Path) -> None:
    weights = checkpoint_store.folder_of(sweep, 0) / "epoch_0003" / "weights.pt"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(
        UserError, match=r"the checkpoint of epoch 3 is damaged \(weights.pt has changed since"
    ):
        best_of(sweep).model()


@pytest.mark.parametrize("content", [b"", b"garbage", None], ids=["empty", "garbage", "torn"])
def test_broken_weights_are_named(content: bytes | None, sweep: Path) -> None:
    weights = crown(sweep) / "weights.pt"
    weights.write_bytes(weights.read_bytes()[:2000] if content is None else content)
    with pytest.raises(UserError, match=r"best/weights.pt (can't be read|does not fit .* or is damaged)"):
        best_of(sweep).model()


def test_weights_of_other_layers_are_named(sweep: Path) -> None:
    best = crown(sweep)
    torch.save(digits.build_model(digits.Params(hidden=8)).state_dict(), best / "weights.pt")
    with pytest.raises(
        UserError, match=r"does not fit the model that digits_mlp builds now, .*size mismatch"
    ):
        best_of(sweep).model()


MINE = """
from dataclasses import dataclass
from trainables.digits_mlp import build_data, build_model
METRIC, MODE = "val_acc", "max"

@dataclass(frozen=True, kw_only=True)
class Params:
    {hyperparameter}: float = 0.1
    momentum: float = 0.9
    hidden: int = 16
    batch_size: int = 64

    def __post_init__(self):
        if self.momentum > 1:
            raise ValueError("momentum: at most 1")
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of the user's, where the notebook runs."""
    (tmp_path / "best_project").mkdir()
    (tmp_path / "best_project" / "model.py").write_text(MINE.format(hyperparameter="lr"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in [name for name in sys.modules if name.startswith("best_project")]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


def of_project(best: Best, **params: float) -> Best:
    """The same trial, had it been of the user's own trainable."""
    return dataclasses.replace(best, trainable="best_project.model", params={**best.params, **params})


def test_a_trainable_by_its_dotted_path_is_found(sweep: Path, project: Path) -> None:
    crown(sweep)
    best = best_of(sweep)
    assert accuracy(of_project(best)) == pytest.approx(best.score, abs=0.004)


def test_a_trainable_that_is_gone_is_named(sweep: Path, project: Path) -> None:
    crown(sweep)
    gone = dataclasses.replace(best_of(sweep), trainable="best_project.modle")
    with pytest.raises(
        UserError, match=r"best_project.modle: no such trainable. Did you mean 'best_project.mod"
    ):
        gone.model()


def test_params_that_no_longer_fit_are_named(sweep: Path, project: Path) -> None:
    crown(sweep)
    with pytest.raises(
        UserError, match=r"trial 0 does not fit best_project.model as it is now: momentum: at mo"
    ):
        of_project(best_of(sweep), momentum=2.0).model()
    (project / "best_project" / "model.py").write_text(MINE.format(hyperparameter="lrate"))
    sys.modules.pop("best_project.model", None)
    with pytest.raises(
        UserError, match=r"as it is now: lr: no such hyperparameter of Params. Hyperparameters: lrate"
    ):
        of_project(best_of(sweep)).model()


def test_to_look_for_the_best_trial_loads_no_pytorch(sweep: Path) -> None:
    from tests.test_architecture import ROOT, heavy_after

    code = f"from sweeps.analysis.sweep import load; assert load({str(sweep)!r}).best().number == 0"
    assert not {"torch", "lightning", "ray"} & set(heavy_after(code, ROOT))
