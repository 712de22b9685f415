"""The record as tables: a row for every trial and epoch, one type per column."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sweeps.analysis import sweep as analysis_sweep
from sweeps.analysis import tables
from sweeps.analysis.report.page import write_of_folder
from sweeps.common.errors import UserError
from sweeps.execution.output import folder_files
from sweeps.record.record import Record
from sweeps.training.time_breakdown import COSTS
from tests.conftest import propose


def sample(folder: Path, params: list[dict[str, Any]] | None = None) -> Record:
    """Three trials: one finished, one failed before its first epoch, one that still trains."""
    params = params or [{"lr": 0.1, "act": "relu"}, {"lr": 0.2, "act": "gelu"}, {"lr": 0.3, "act": "relu"}]
    record = Record.create(folder, "s", "max", {"metric": "acc"})
    for number, of_trial in enumerate(params):
        propose(record, of_trial, seed=5, fixed={"width": 8, "bias": True})
        record.place(number, {"pc": "pc1", "pid": 100 + number, "gpu": ""})
    record.report(0, 1, 0.5, {"acc": 0.5, "loss": 2.0}, 1.0)
    record.report(0, 2, 0.7, {"acc": 0.7, "loss": 1.5}, 1.5)
    record.report(0, 3, 0.6, {"acc": 0.6, "loss": 1.0}, 2.0)
    record.end(0, "finished")
    record.end(1, "failed", "ValueError: no", "logs/trial_0001.log")
    record.report(2, 1, math.nan, {"acc": math.nan}, 1.0)
    return record


def test_a_damaged_record_is_a_clear_error(tmp_path: Path) -> None:
    sample(tmp_path)
    journal = tmp_path / "record.journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:4], b"damaged\n", *lines[4:]]))
    with pytest.raises(UserError, match=r"record\.journal: "):
        tables.write_csv(tmp_path, str(tmp_path / "trials.csv"))


@pytest.mark.parametrize("given", [".", "/", ""])
def test_a_folder_in_place_of_a_file_for_the_tables_is_told(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=f"^--csv {given}: Is a directory$"):
        tables.write_csv(tmp_path, given)
    with pytest.raises(UserError, match=r"Is a directory$"):
        write_of_folder(tmp_path, Path(given))


def test_an_anchor_says_which_trial_it_runs_again(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {"metric": "acc"})
    first = propose(record, {"lr": 0.1})
    record.begin(first.point, first.optuna, 5, origin="trial 3 of wide")
    assert tables.trials_table(record)["origin"].to_pylist() == ["", "trial 3 of wide"]


def test_the_trials_table_has_these_columns_and_types(tmp_path: Path) -> None:
    schema = tables.trials_table(sample(tmp_path)).schema
    assert {field.name: str(field.type) for field in schema} == {
        "id": "int64",
        "status": "string",
        "reason": "string",
        "log": "string",
        "notices": "string",
        "micro_batch": "int64",
        "params_lr": "double",
        "params_act": "string",
        "params_width": "int64",
        "params_bias": "bool",
        "epochs": "int64",
        "best_epoch": "int64",
        "best_acc": "double",
        "best_loss": "double",
        "last_acc": "double",
        "last_loss": "double",
        **dict.fromkeys(("seconds", *COSTS), "double"),
        "pc": "string",
        "pid": "int64",
        "gpu": "string",
        "start": "timestamp[ms, tz=UTC]",
        "end": "timestamp[ms, tz=UTC]",
        "seed": "int64",
        "confirms": "int64",
        "origin": "string",
    }


def test_best_columns_are_of_the_best_epoch_and_last_columns_of_the_last(tmp_path: Path) -> None:
    row = tables.trials_table(sample(tmp_path)).to_pylist()[0]
    expected = {
        "epochs": 3,
        "best_epoch": 2,
        "best_acc": 0.7,
        "best_loss": 1.5,
        "last_acc": 0.6,
        "last_loss": 1.0,
        "seconds": 4.5,
        "pid": 100,
        "seed": 5,
    }
    assert {name: row[name] for name in expected} == expected
    assert row["start"] <= row["end"]


def test_costs_are_columns_of_epochs_and_of_trials(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {"metric": "acc"})
    propose(record, {"lr": 0.1}, seed=0)
    record.report(0, 1, 0.5, {"acc": 0.5}, 1.0, {"data_wait_pct": 10.0, "memory_gb": 2.0})
    record.report(0, 2, 0.5, {"acc": 0.5}, 3.0, {"data_wait_pct": 50.0, "memory_gb": 1.0})
    for known in (record, Record.read(tmp_path)):
        epochs = tables.epochs_table(known)
        assert epochs["data_wait_pct"].to_pylist() == [10.0, 50.0]
        assert epochs["gpu_util_pct"].to_pylist() == [None, None]
        (row,) = tables.trials_table(known).to_pylist()
        assert (row["data_wait_pct"], row["memory_gb"], row["gpu_util_pct"]) == (40.0, 2.0, None)


def test_a_failed_trial_is_a_row_with_its_reason_and_no_score(tmp_path: Path) -> None:
    row = tables.trials_table(sample(tmp_path)).to_pylist()[1]
    assert (row["status"], row["reason"], row["log"]) == ("failed", "ValueError: no", "logs/trial_0001.log")
    assert (row["epochs"], row["best_epoch"], row["best_acc"], row["last_acc"]) == (0, None, None, None)
    assert row["params_lr"] == 0.2


def test_a_trial_that_still_trains_is_a_row_without_an_end(tmp_path: Path) -> None:
    row = tables.trials_table(sample(tmp_path)).to_pylist()[2]
    assert (row["status"], row["end"], row["epochs"], row["best_epoch"]) == ("unfinished", None, 1, None)
    assert math.isnan(row["last_acc"])
    assert row["last_loss"] is None  # never logged by this trial


def test_hyperparameters_that_stood_still_are_columns_too(tmp_path: Path) -> None:
    table = tables.trials_table(sample(tmp_path))
    assert table["params_width"].to_pylist() == [8, 8, 8]
    assert table["params_bias"].to_pylist() == [True, True, True]


def test_the_epochs_table_has_a_row_for_every_reported_epoch(tmp_path: Path) -> None:
    table = tables.epochs_table(sample(tmp_path))
    assert {field.name: str(field.type) for field in table.schema} == {
        "id": "int64",
        "epoch": "int64",
        "acc": "double",
        "loss": "double",
        **dict.fromkeys(("seconds", *COSTS), "double"),
        "time": "timestamp[ms, tz=UTC]",
    }
    assert list(zip(table["id"].to_pylist(), table["epoch"].to_pylist(), strict=True)) == [
        (0, 1),
        (0, 2),
        (0, 3),
        (2, 1),
    ]
    assert table["loss"].to_pylist() == [2.0, 1.5, 1.0, None]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1, 2, 3], "int64", [1, 2, 3]),
        ([1, 2.5, 3], "double", [1.0, 2.5, 3.0]),
        ([True, False, True], "bool", [True, False, True]),
        (["a", "b", "c"], "string", ["a", "b", "c"]),
        ([1, "auto", 3], "string", ["1", "auto", "3"]),
        ([True, "auto", 0.5], "string", ["True", "auto", "0.5"]),
        ([True, 2, 3], "string", ["True", "2", "3"]),
        ([2**64 - 1, 1, 2], "string", ["18446744073709551615", "1", "2"]),
        ([2**53 + 1, 0.5, 2], "string", ["9007199254740993", "0.5", "2"]),
        (["caf\udce9", "a", "b"], "string", ["caf\\udce9", "a", "b"]),
    ],
)
def test_a_hyperparameter_has_the_narrowest_type_that_holds_all_its_values(
    values: list[Any], kind: str, expected: list[Any], tmp_path: Path
) -> None:
    column = tables.trials_table(sample(tmp_path, [{"rate": value} for value in values]))["params_rate"]
    assert str(column.type) == kind
    assert column.to_pylist() == expected


def test_a_hyperparameter_that_was_fixed_without_a_value_is_empty(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {"metric": "acc"})
    propose(record, {"lr": 0.1}, fixed={"depth": None})
    assert tables.trials_table(record)["params_depth"].to_pylist() == [None]


def test_an_empty_record_makes_empty_tables(tmp_path: Path) -> None:
    record = Record.create(tmp_path, "s", "max", {"metric": "acc"})
    folder_files.write_tables(record, tmp_path)
    sweep = analysis_sweep.load(tmp_path)
    assert (sweep.trials.num_rows, sweep.epochs.num_rows) == (0, 0)
    assert {"id", "status", "epochs"} <= set(sweep.trials.column_names)


def test_the_tables_on_disk_are_those_that_load_gives(tmp_path: Path) -> None:
    folder_files.write_tables(sample(tmp_path), tmp_path)
    sweep = analysis_sweep.load(str(tmp_path))
    assert sweep.about["metric"] == "acc"
    for name, table in ((folder_files.TRIALS_FILE, sweep.trials), (folder_files.EPOCHS_FILE, sweep.epochs)):
        written = pq.read_table(tmp_path / name)
        assert written.schema.equals(table.schema)
        assert written.num_rows == table.num_rows
    assert list(tmp_path.glob(".*.part")) == []


def test_load_sees_a_sweep_that_is_still_running(tmp_path: Path) -> None:
    record = sample(tmp_path)
    assert analysis_sweep.load(tmp_path).epochs.num_rows == 4
    record.report(2, 2, 0.3, {"acc": 0.3}, 1.0)
    assert analysis_sweep.load(tmp_path).epochs.num_rows == 5


def test_tables_go_into_pandas_and_back_without_loss_of_rows(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    table = tables.trials_table(sample(tmp_path))
    assert pa.Table.from_pandas(table.to_pandas()).num_rows == table.num_rows


def test_tables_that_cannot_be_written_are_told_and_end_nothing(tmp_path: Path) -> None:
    record = sample(tmp_path)
    assert folder_files.write_tables(record, tmp_path) == ""
    (tmp_path / folder_files.EPOCHS_FILE).unlink()
    (tmp_path / folder_files.EPOCHS_FILE / "in the way").mkdir(parents=True)
    assert re.match(
        r"The tables can't be written: .*epochs\.parquet", folder_files.write_tables(record, tmp_path)
    )
