"""Trials from elsewhere: a study of Optuna, or a table of runs, that a new sweep refines."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState, create_trial

from sweeps import results
from sweeps.common.errors import UserError
from sweeps.config import cli
from sweeps.plan.build import make_plan
from sweeps.plan.plan import Plan
from tests.support.searched import peak, searched
from tests.sweeps.plan.refining import ranges_of

DRAWN_FROM: dict[str, Any] = {
    "lr": FloatDistribution(1e-3, 1.0, log=True),
    "hidden": IntDistribution(8, 64, step=8),
    "act": CategoricalDistribution(["relu", "gelu"]),
}
WANDB = "Name,State,Runtime,hidden,config.lr,val_acc\n"


def trial(number: int, **more: Any) -> FrozenTrial:
    """The nearer its lr is to 0.03, the better; two of three are pruned after three epochs."""
    lr = 1e-3 * 1000 ** (number / 11)
    score, pruned = 1 - abs(math.log10(lr / 0.03)) / 2, number % 3 > 0
    steps = {step: score * (step + 1) / 9 for step in range(3 if pruned else 9)}
    state = TrialState.PRUNED if pruned else TrialState.COMPLETE
    params = {"lr": lr, "hidden": 16, "act": "relu"}
    about = {"params": params, "distributions": DRAWN_FROM, "intermediate_values": steps}
    return create_trial(**{"state": state, "value": score, **about, **more})


def study(storage: Any, name: str = "s", direction: str = "maximize", **more: Any) -> None:
    made = optuna.create_study(storage=storage, study_name=name, direction=direction, **more)
    made.add_trials([trial(number) for number in range(12)])


def refined(tmp_path: Path, *arguments: str) -> Plan:
    words = ["digits_mlp", "--results-dir", str(tmp_path / "results"), "--gpus-per-trial", "0"]
    return make_plan(cli.parse([*words, "--refine", *arguments]))


def lines(plan: Plan) -> str:
    assert plan.lineage is not None
    return "\n".join(text for _, text in plan.lineage.lines)


@pytest.mark.slow
def test_a_study_narrows_the_ranges_and_its_best_trials_run_again_first(tmp_path: Path) -> None:
    """In a database or in a journal alike; the file stays as it is."""
    study(f"sqlite:///{tmp_path}/a.db")
    study(JournalStorage(JournalFileBackend(str(tmp_path / "a.log"))))
    before = (tmp_path / "a.db").read_bytes()
    plan = refined(tmp_path, f"{tmp_path}/a.db")
    assert (tmp_path / "a.db").read_bytes() == before
    low, high = ranges_of(plan)["lr"]
    assert 1e-3 < low < 0.03 < high < 1.0
    assert plan.lineage is not None
    assert not plan.lineage.earlier.trials
    origins = [each.origin for each in plan.lineage.earlier.anchors]
    assert origins == [f"trial {number} of a.db" for number in (6, 3, 5)]  # 5 was pruned
    assert plan.lineage.earlier.anchors[0].params["hidden"] == 16
    text = lines(plan)
    assert "12 trials from elsewhere, best val_acc 0.92" in text
    assert "hyperparameters: lr, hidden\n  not used: act\n  it has no momentum" in text
    assert "its scores are not comparable: with which code and data they were made is not known" in text
    for same in (f"sqlite:///{tmp_path}/a.db::s", f"{tmp_path}/a.log"):
        assert ranges_of(refined(tmp_path, same)) == ranges_of(plan)


@pytest.mark.slow
def test_a_study_that_does_not_fit_is_refused_in_a_line(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/a.db"
    study(storage, "first")
    study(storage, "second", "minimize")
    optuna.create_study(storage=storage, study_name="third", directions=["minimize", "maximize"])
    optuna.create_study(storage=storage, study_name="fourth", direction="maximize")
    (tmp_path / "b.db").write_bytes(b"SQLite format 3\0")
    for given, why in {
        "a.db": "several studies; name one, as in .*a.db::first. Studies: first, second",
        "a.db::frst": "no such study. Did you mean 'first'",
        "a.db::second": "the study is to minimize its value, this sweep to maximize val_acc",
        "a.db::third": "2 objectives, and --refine goes by one",
        "a.db::fourth": "it has no trials",
        "b.db": "no study of Optuna",
        "c.db": "no such file",
    }.items():
        with pytest.raises(UserError, match=why):
            refined(tmp_path, f"{tmp_path}/{given}")


def test_a_table_of_runs_is_read_as_wandb_exports_it(tmp_path: Path) -> None:
    ends = ["crashed" if number % 4 == 0 else "finished" for number in range(9)]
    rows = [f"run-{n},{end},60,16.0,{0.002 * 2**n},{0.9 - abs(n - 4) / 10}" for n, end in enumerate(ends)]
    others = ["run-9,running,3,16,0.5,", "run-10,finished,9,x,0.01,"]
    (tmp_path / "runs.csv").write_text(WANDB + "\n".join([*rows, *others]))
    plan = refined(tmp_path, f"{tmp_path}/runs.csv")
    assert plan.lineage is not None
    assert [each.origin for each in plan.lineage.earlier.anchors] == [
        f"run run-{number} of runs.csv" for number in (3, 5, 2)
    ]
    assert plan.lineage.earlier.anchors[0].params == {"lr": 0.016, "momentum": 0.9, "hidden": 16}
    text = lines(plan)
    assert "score: val_acc\n  hyperparameters: hidden, config.lr as lr\n  not used: Runtime" in text
    assert "left out: 1 of 11 rows: row 11 (hidden 'x' must be a whole number)" in text


def test_a_row_with_a_cell_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    rows = ['"1,000",16,0.99', "0.02,NaN,0.98", ",16,0.97", ".nan,16,0.96", "0.03,16,0.5"]
    (tmp_path / "runs.CSV").write_text("\n".join(["lr,hidden,metrics.val_acc", *rows]))
    plan = refined(tmp_path, f"{tmp_path}/runs.CSV")
    assert plan.lineage is not None
    assert [each.origin for each in plan.lineage.earlier.anchors] == ["row 5 of runs.CSV"]
    unread = "row 1 (lr '1,000' must be a number), row 2 (hidden 'NaN' must be a whole number)"
    assert "score: metrics.val_acc\n" in lines(plan)
    assert f"left out: 4 of 5 rows: {unread}, row 3 (lr is empty), and 1 more" in lines(plan)


def test_an_empty_cell_is_null_where_params_take_it(module: Callable[..., str], tmp_path: Path) -> None:
    code = (
        "from dataclasses import dataclass\nfrom ray import tune\nMETRIC, MODE = 'acc', 'max'\n"
        "@dataclass\nclass Params:\n    lr: float = 0.5\n    depth: int | None = 5\n"
        "SPACE = {'lr': tune.loguniform(1e-3, 1.0), 'depth': tune.choice([None, 5, 10])}\n"
        "def train(params, trial):\n    pass\n"
    )
    (tmp_path / "runs.csv").write_text("lr,depth,acc\n0.1,,0.9\n0.2,10.0,0.8\n")
    words = [module(code, "with_null"), "--results-dir", str(tmp_path), "--gpus-per-trial", "0"]
    plan = make_plan(cli.parse([*words, "--refine", f"{tmp_path}/runs.csv"]))
    assert plan.lineage is not None
    assert [each.params["depth"] for each in plan.lineage.earlier.anchors] == [None, 10]


def test_a_gap_is_a_branch_that_a_trial_did_not_take(module: Callable[..., str], tmp_path: Path) -> None:
    code = (
        "def suggest(trial):\n    if trial.suggest_categorical('hidden', [8, 16]) == 8:\n"
        "        trial.suggest_float('lr', 1e-3, 1.0)\n"
    )
    (tmp_path / "runs.csv").write_text("hidden,lr,val_acc\n16,,0.9\n8,0.2,0.8\n,0.2,0.7\n")
    plan = refined(tmp_path, f"{tmp_path}/runs.csv", "--search-space", module(code, "branches"))
    assert plan.lineage is not None
    anchors = [(each.params["hidden"], each.params.get("lr")) for each in plan.lineage.earlier.anchors]
    assert anchors == [(16, None), (8, 0.2)]


def test_a_table_of_epochs_may_have_floats_and_is_refused_by_its_row(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text("id,lr,val_acc\n0,0.1,0.5\n1,0.2,0.4\n")
    beside = tmp_path / "runs-epochs.csv"
    beside.write_text("id,epoch,val_acc\n0,1.0,0.1\n1,2.0,0.9\n")
    plan = refined(tmp_path, f"{tmp_path}/runs.csv")
    assert "best val_acc 0.9 (trial 1)" in lines(plan)
    beside.write_text("id,epoch,val_acc\n0,1.0,0.1\n1,last,0.9\n")
    with pytest.raises(
        UserError, match=r"runs-epochs.csv: row 2: epoch 'last': must be a whole number from 1"
    ):
        refined(tmp_path, f"{tmp_path}/runs.csv")


def test_a_table_that_does_not_fit_is_refused_in_a_line(tmp_path: Path) -> None:
    for content, why in {
        "": "it has no trials",
        WANDB: "it has no trials",
        "lr,valacc\n0.1,0.5\n": "no column of val_acc. Did you mean 'valacc'. Columns: lr, valacc",
        "rate,val_acc\n0.1,0.5\n": "no column of a hyperparameter",
        "lr,val_acc\nx,0.5\n": "no row can be read; left out: 1 of 1 row: row 1 .lr 'x' must be a number",
        "lr,val_acc\nx,0.5\n0.1,\n": "no trial there has a val_acc; left out: 1 of 2 rows",
        "lr,val_acc\n0.1,\n": "no trial there has a val_acc",
        "lr,hidden,val_acc\n0.1,1000,0.5\n": "no trial there with a score lies in the ranges",
    }.items():
        (tmp_path / "runs.csv").write_text(content)
        with pytest.raises(UserError, match=why.replace("?", r"\?")):
            refined(tmp_path, f"{tmp_path}/runs.csv")


def test_the_tables_of_a_sweep_are_read_with_the_scores_of_its_epochs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Trials that were pruned early are compared with others at the same epoch."""
    sweep = searched(tmp_path, "old", peak(0.03), num_trials=12)
    assert results.main([str(sweep.folder), "--csv", str(tmp_path / "old.csv")]) == 0
    epochs = sum(len(trial.epochs) for trial in sweep.record.trials)
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path}/old.csv: 12 rows",
        f"{tmp_path}/old-epochs.csv: {epochs} rows",
    ]
    plan = refined(tmp_path, f"{tmp_path}/old.csv")
    best = [f"trial {number} of old.csv" for number in sweep.record.leaders(3)]
    assert plan.lineage is not None
    assert [each.origin for each in plan.lineage.earlier.anchors] == best
    assert results.main([str(sweep.folder), "--csv", "-"]) == 0
    assert results.main([str(sweep.folder), "--csv", str(tmp_path / "no" / "old.csv")]) == 2
