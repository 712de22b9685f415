"""The benchmark of a GPU: its parts rehearsed on the CPU, its arithmetic, its results; no timings."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import _measure, gpu
from benchmarks._gpu import (
    PARTS,
    data,
    ladder,
    notes,
    overhead,
    picture,
    processes,
    results,
    sharing,
    train,
    transformer,
    zero,
)
from benchmarks._gpu.line import Line
from benchmarks._gpu.notes import Notes
from sweeps.record.trials import EpochRow, TrialRow
from trainables._shared import fashion_mnist

ABOUT = {
    "card": "a card",
    "driver": "1",
    "cuda": "13",
    "torch": "2",
    "lightning": "2",
    "ray": "2",
    "deepspeed": "0",
}


@pytest.fixture
def needs_fashion_mnist() -> None:
    try:
        fashion_mnist.find()
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture
def committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the benchmark would write measured results."""
    monkeypatch.setenv(_measure.RESULTS, str(tmp_path / "committed"))
    return tmp_path / "committed"


def noted(file: Path, *, limit_s: float = 60.0, repeats: int = 1) -> Notes:
    return Notes(file, repeats, limit_s, is_rehearsal=True)


def rehearsed(name: str, folder: Path) -> dict[str, Any]:
    """A part, run by the command on the CPU."""
    flags = ["--on-cpu", "--part", name, "--repeats", "1", "--results-dir", str(folder)]
    assert gpu.main(flags) == 0
    found: dict[str, Any] = json.loads((folder / "gpu.json").read_text())["parts"][name]
    assert found["ended"] == "", [run for run in found["runs"] if "failed" in run]
    return found


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_each_part_is_skipped_with_the_reason(
    committed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gpu.main([]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in said] == list(PARTS)
    assert all("skipped: PyTorch" in line and line.endswith("finds no CUDA device") for line in said)
    assert not committed.exists()


def test_a_rehearsal_is_never_written_where_measured_results_are(
    committed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        gpu.main(["--on-cpu", "--results-dir", str(committed)])
    assert "a rehearsal on the CPU measures nothing that belongs there" in capsys.readouterr().err


def test_the_wait_for_data_and_the_loaders_are_measured(needs_fashion_mnist: None, tmp_path: Path) -> None:
    found = rehearsed("data", tmp_path)
    trained = [run for run in found["runs"] if run["kind"] == "training"]
    assert {run["what"] for run in trained} == {
        "fashion_cnn as shipped",
        "fashion_vit as shipped",
        data.PHOTOGRAPHS,
    }
    assert all(run["rows_per_s"] > 0 and run["epochs"] == 1 for run in found["runs"] if run in trained)
    assert all(0 <= run["data_wait_pct"] <= 100 for run in trained)
    assert {run["loader"] for run in found["runs"] if run not in trained} == {data.OURS, data.THEIRS}
    assert [goal["bound"] for goal in found["goals"]] == [5.0] * 3
    assert (tmp_path / "gpu.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.long
@pytest.mark.timeout(900)  # a CPU compiles a rung of the ladder for minutes
@pytest.mark.parametrize("name", ["train", "ladder", "sharing", "overhead", "zero"])
def test_a_part_runs_to_its_end(name: str, needs_fashion_mnist: None, tmp_path: Path) -> None:
    found = rehearsed(name, tmp_path)
    assert all(line["speed"] > 0 for line in found["lines"])
    assert len(found["lines"]) >= 2


def test_steps_of_the_transformer_are_timed_behind_those_that_warm_up() -> None:
    found = zero.train("tiny", "fp16", 2, "cpu")
    model = transformer.Transformer(*zero.REHEARSED["tiny"], "cpu")
    assert found["parameters"] == sum(weight.numel() for weight in model.parameters())
    assert found["step_s"] > 0


@pytest.mark.parametrize(("size", "wanted"), [("1 M", 1e6), ("100 M", 1e8), ("1 B", 1e9)])
def test_a_transformer_has_the_parameters_that_it_is_named_by(size: str, wanted: float) -> None:
    model = transformer.Transformer(*zero.SIZES[size], "meta")
    assert sum(weight.numel() for weight in model.parameters()) == pytest.approx(wanted, rel=0.1)


def test_a_measurement_that_fails_is_noted_and_the_next_one_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> dict[str, Any]:
        raise ValueError("no such kernel")

    file = tmp_path / "notes.jsonl"
    taken = noted(file)
    assert not taken.measure({"way": "fp16"}, fails)
    assert taken.measure({"way": "fp32"}, lambda: {"rows_per_s": 2.0})
    failed, measured = notes.read(file)
    assert failed["failed"] == "ValueError: no such kernel"
    assert (measured["way"], measured["rows_per_s"]) == ("fp32", 2.0)
    said = capsys.readouterr()
    assert "fp16: failed: ValueError: no such kernel" in said.out
    assert "Traceback" in said.err


def test_nothing_begins_when_the_time_of_a_part_is_up(tmp_path: Path) -> None:
    taken = noted(tmp_path / "notes.jsonl", limit_s=0.0)
    assert not taken.measure({"way": "fp16"}, lambda: pytest.fail("it began"))
    assert notes.read(tmp_path / "notes.jsonl") == [{"way": "fp16", "failed": "the time of the part was up"}]


def test_notes_that_were_cut_off_count_up_to_there(tmp_path: Path) -> None:
    file = tmp_path / "notes.jsonl"
    file.write_text('{"way": "fp16"}\n{"way": "fp')
    assert notes.read(file) == [{"way": "fp16"}]


def test_a_part_that_takes_too_long_is_ended_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "PATIENCE_S", 0.2)
    flags = ["--on-cpu", "--part", "zero", "--limit-s", "0.1", "--results-dir", str(tmp_path)]
    assert gpu.main(flags) == 0
    assert "zero: it took longer than 0 s and was ended" in capsys.readouterr().out
    assert json.loads((tmp_path / "gpu.json").read_text())["parts"]["zero"]["lines"] == []


def test_a_program_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    child = f"import time; time.sleep(60); open({str(tmp_path / 'alive')!r}, 'w')"
    hangs = (
        f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', {child!r}])\ntime.sleep(60)"
    )
    with pytest.raises(processes.Failed, match="took longer than 1 s"):
        processes.output_of([sys.executable, "-c", hangs], 1.0)  # it reads what the child prints to its end
    assert not (tmp_path / "alive").exists()


def test_a_program_that_fails_is_quoted() -> None:
    with pytest.raises(processes.Failed, match=r"(?s)exit status 3:.*no card"):
        processes.output_of([sys.executable, "-c", "print('no card'); exit(3)"], 60.0)


RUNS: dict[str, list[dict[str, Any]]] = {
    "train": [
        {"model": "fashion_cnn", "size": "large", "way": "fp32", "rows_per_s": 100.0, "epoch_s": 2.0},
        {"model": "fashion_cnn", "size": "large", "way": "fp16", "rows_per_s": 250.0, "epoch_s": 1.0},
        {"model": "fashion_vit", "size": "large", "way": "fp16", "failed": "out of memory"},
    ],
    "sharing": [
        {
            "share": share,
            "repeat": repeat,
            "trials_per_hour": rate * (1 + repeat),
            "chosen": 16,
            "processes": 8,
        }
        for share, rate in ((1, 100.0), (4, 260.0), ("auto", 300.0))
        for repeat in (0, 1)
    ],
    "zero": [
        {"size": size, "way": way, "repeat": 0, "step_s": step_s, "gpu_memory_gb": memory_gb}
        for size, way, step_s, memory_gb in (
            ("1 M", "fp16", 0.01, 1.0),
            ("1 M", "fp16, ZeRO 2", 0.02, 1.5),
            ("1 B", "fp16", 0.10, 20.0),
            ("1 B", "fp16, ZeRO 2", 0.12, 16.0),
        )
    ],
    "overhead": [
        {"arm": arm, "workers": 4, "repeat": 0, "s_per_epoch": s_per_epoch, "wall_s": 20.0}
        for arm, s_per_epoch in (("a", 0.3), ("f", 0.2), ("c", 0.6))
    ],
    "ladder": [
        {
            "trainable": "fashion_vit",
            "rung": rung,
            "samples_s": 10.0,
            "epoch_rows": 50,
            "is_kept": is_kept,
            "gpu_util_pct": util_pct,
            "data_wait_pct": 1.0,
            "why_not_faces": "faces lacks cv2 here",
        }
        for rung, is_kept, util_pct in (
            ("as given", True, 40.0),
            ("larger batch", True, 95.0),
            ("compile", False, 10.0),
        )
    ],
    "data": [
        {"kind": "training", "what": "fashion_cnn as shipped", "rows_per_s": 9.0, "data_wait_pct": 6.0},
        {"kind": "rows of 3 KB", "what": data.OURS, "side": 32, "loader": data.OURS, "rows_per_s": 80.0},
        {
            "kind": "rows of 3 KB",
            "what": "DataLoader, 0",
            "side": 32,
            "loader": data.THEIRS,
            "rows_per_s": 10.0,
        },
        {
            "kind": "rows of 3 KB",
            "what": "DataLoader, 4",
            "side": 32,
            "loader": data.THEIRS,
            "rows_per_s": 20.0,
        },
    ],
}


@pytest.mark.parametrize(
    ("part", "goals", "remark"),
    [
        (train, [], "fashion_cnn large: speed as a multiple of fp32: fp16 2.50."),
        (
            sharing,
            ["trials_per_hour_4_to_1 2.60 (goal >= 2.5) met"],
            "auto chose 16 trials a card; 8 processes",
        ),
        (
            zero,
            [],
            "takes less GPU memory than plain fp16 where the model has 1 B parameters (its share is 1.50 "
            "at 1 M, 0.80 at 1 B)",
        ),
        (
            overhead,
            [
                "overhead_24_4_at_a_time 1.50 (goal <= 1.8) met",
                "ray_tune_reuse_24_4_at_a_time 2.00 (goal >= 1.4) met",
                "overhead_24_1_at_a_time - (goal <= 1.8) not measured",
                "ray_tune_reuse_24_1_at_a_time - (goal >= 1.4) not measured",
            ],
            "20 s from its start to its exit",
        ),
        (
            ladder,
            ["gpu_util_pct_last_rung 95.00 (goal >= 90.0) met"],
            "that of fashion_vit: faces lacks cv2 here.",
        ),
        (
            data,
            ["data_wait_pct_fashion_cnn_as_shipped 6.00 (goal <= 5.0) missed"],
            "ParquetDataModule is 4.0 times",
        ),
    ],
)
def test_goals_and_remarks_of_a_part(part: Any, goals: Sequence[str], remark: str) -> None:
    runs = RUNS[part.__name__.rpartition(".")[2]]
    assert [goal.line() for goal in part.goals(runs)] == goals
    assert remark in "\n".join(part.remarks(runs))


@pytest.mark.parametrize("name", PARTS)
def test_a_part_that_measured_nothing_has_no_line_and_no_goal_that_is_met(name: str) -> None:
    part = importlib.import_module(f"benchmarks._gpu.{name}")
    assert part.lines([]) == []
    assert all(goal.is_met is None for goal in part.goals([]))
    assert part.remarks([]) == []


def test_zero_pays_at_no_size_where_it_takes_more_everywhere() -> None:
    assert "takes less time than plain fp16 at no size" in zero.remarks(RUNS["zero"])[0]


def test_what_failed_has_no_line() -> None:
    assert [line.what for line in train.lines(RUNS["train"])] == [
        "fashion_cnn large, fp32",
        "fashion_cnn large, fp16",
    ]


def measured(name: str, **about: str) -> dict[str, Any]:
    part = importlib.import_module(f"benchmarks._gpu.{name}")
    return results.part("python -m benchmarks.gpu", {**ABOUT, **about}, RUNS[name], "", part)


def test_a_part_replaces_itself_and_leaves_the_others(tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    results.merge(file, "zero", measured("zero"), PARTS)
    results.merge(file, "train", measured("train", card="an old card"), PARTS)
    parts = results.merge(file, "train", measured("train", card="a new card"), PARTS)
    assert list(parts) == ["train", "zero"]
    assert [part["machine"]["card"] for part in parts.values()] == ["a new card", "a card"]
    assert results.read(file) == parts
    assert [path.name for path in tmp_path.iterdir()] == ["gpu.json"]


def test_each_machine_is_named_once_with_its_parts() -> None:
    parts = {"train": measured("train"), "data": measured("data", card="another"), "zero": measured("zero")}
    for part in parts.values():
        part["date"] = "2026-01-02 03:04:05 +0000"
    one, its_card, other, its_own = results.machines(parts).splitlines()
    assert (one, other) == ("train, zero (2026-01-02):", "data (2026-01-02):")
    assert its_card.startswith("a card, driver 1, CUDA 13, ")
    assert its_own.startswith("another, driver 1, CUDA 13, ")


def test_a_part_that_ended_before_it_knew_its_card_is_shown_too() -> None:
    part = results.part("python -m benchmarks.gpu", {}, [], "its process ended with status 1", train)
    assert "\n-, driver -, CUDA -, " in results.machines({"train": part})


def test_all_parts_are_one_table_and_one_picture(tmp_path: Path) -> None:
    parts = {name: measured(name) for name in PARTS}
    table = results.table(parts)
    assert len(table.splitlines()) == 1 + sum(len(part["lines"]) for part in parts.values())
    assert "train  fashion_cnn large, fp16" in table
    assert "250 images/s" in table
    picture.draw(parts, tmp_path / "gpu.png")
    assert (tmp_path / "gpu.png").read_bytes().startswith(b"\x89PNG")


def test_a_line_without_figures_has_a_cell_for_each_title() -> None:
    assert Line(what="a sweep").cells("sharing") == ("sharing  a sweep", "-", "-", "-", "-", "-")


def a_trial(number: int, pid: int, times: Sequence[float]) -> TrialRow:
    epochs = {
        epoch: EpochRow(0.5, {}, 1.0, time, costs={"data_wait_pct": 2.0})
        for epoch, time in enumerate(times, 1)
    }
    return TrialRow(number, {}, 0, 0.0, places=[{"pc": "one", "pid": pid, "after_epoch": 0}], epochs=epochs)


def test_a_shared_card_is_timed_when_all_its_processes_are_warm() -> None:
    """Two processes, an epoch each second in both, of which one starts late."""
    trials = [
        a_trial(0, 1, [1, 2, 3, 4]), a_trial(1, 1, [5, 6, 7, 8]), a_trial(2, 1, [9, 10, 11, 12]),
        a_trial(3, 2, [8, 9, 10, 11]),
    ]  # fmt: skip
    found = sharing.figures(trials)
    assert (found["processes"], found["epochs_per_s"]) == (2, pytest.approx(2.0))
    assert found["trials_per_hour"] == pytest.approx(2 * 3600 / sharing.EPOCHS)
    assert found["data_wait_pct"] == 2.0


@pytest.mark.parametrize(("cores", "words"), [(8, "8"), (6, "8 (6 at a time, one for each CPU core)")])
def test_fewer_trials_than_share_the_card_are_named(cores: int, words: str) -> None:
    run = {"share": 8, "repeat": 0, "trials_per_hour": 1.0, "chosen": 8, "processes": 6, "cores": cores}
    (line,) = sharing.lines([run])
    assert line.what == f"fashion_cnn, trials a card: {words}"


@pytest.mark.parametrize(
    ("said", "share", "expected"),
    [
        ("trials took up to 20 MB of the 80 GB free on a GPU: 16 trials on each from now on", "auto", 16),
        ("trials took up to 60 GB of the 80 GB free on a GPU: 1 trial on each from now on", "auto", 1),
        ("nothing", "auto", 1),
        ("nothing", 4, 4),
    ],
)
def test_what_auto_chose_is_read_from_the_words_of_the_sweep(
    said: str, share: int | str, expected: int
) -> None:
    assert sharing.chosen(said, share) == expected


def test_the_words_of_the_sweep_are_still_those() -> None:
    from sweeps.execution.driver import gpu_sharing

    assert "on each from now on" in Path(gpu_sharing.__file__).read_text()
