"""The benchmark of the whole story: what is measured and what is computed, quality, resumes, the picture."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks import __main__ as everything
from benchmarks import _fashion_images, story
from benchmarks.__main__ import Benchmark
from benchmarks._story import picture, rungs, sweep_runs
from benchmarks._story.parts import Part, Quality, Rung
from benchmarks._story.rungs import NEEDS, PEERS, RUNGS, STEPS, TITLES
from benchmarks._story.sweep_runs import Asked, Found
from benchmarks._story.workloads import FACES, FASHION_CNN, WORKLOADS, Workload, smallest
from trainables._shared import fashion_mnist

QUALITY = Quality(val=0.9, val_rows=2_000, test=0.88, test_rows=10_000)


@pytest.fixture
def needs_fashion_mnist() -> None:
    try:
        fashion_mnist.find()
    except FileNotFoundError as error:
        pytest.skip(str(error))


def test_a_part_that_is_timed_a_few_times_is_its_median_times_how_often_it_happens() -> None:
    part = Part("epoch", 1_600, [2.0, 1.0, 9.0])
    assert (part.is_measured, part.value_s) == (False, 3_200.0)
    # Student's t with 2 degrees of freedom: 4.303 standard errors of the mean.
    assert part.half_width_s == pytest.approx(1_600 * 4.3027 * math.sqrt(19.0) / math.sqrt(3), rel=1e-4)


def test_a_part_of_which_all_is_timed_is_its_sum_and_one_with_two_values_has_no_interval() -> None:
    windows = Part("half of the epochs", 2, [10.0, 30.0])
    assert (windows.is_measured, windows.value_s, windows.half_width_s) == (True, 40.0, None)
    with pytest.raises(ValueError, match="part epoch: it was never timed"):
        Part("epoch", 10, [])


def test_a_rung_says_how_much_of_it_was_measured() -> None:
    rung = Rung("naive", [Part("preparation", 1, [20.0]), Part("epoch", 100, [1.0, 1.0, 1.0, 1.0])], QUALITY)
    assert rung.total_s == (120.0, 120.0, 120.0)
    assert rung.measured_pct == pytest.approx(100 * 24 / 120)
    assert Rung.from_json(json.loads(json.dumps(rung.to_json()))) == rung


def test_intervals_of_parts_add_up_as_independent_ones_and_ratios_are_as_wide_as_both() -> None:
    first = Rung("naive", [Part("a", 1, [7.0, 10.0, 13.0]), Part("b", 1, [16.0, 20.0, 24.0])], QUALITY)
    halves = [part.half_width_s or 0.0 for part in first.parts]
    assert first.total_s.high - 30.0 == pytest.approx(math.hypot(*halves))
    last = Rung("packed", [Part("sweep", 1, [3.0])], QUALITY)
    value, low, high = last.times_as_fast_as(first)
    assert value == pytest.approx(10.0)
    assert high / value == pytest.approx(value / low) == pytest.approx(1 + math.hypot(*halves) / 30)


@pytest.mark.parametrize(
    ("test", "val", "is_worse"),
    [(0.879, 0.5, False), (0.869, 0.9, True), (0.95, 0.9, False), (None, 0.899, False), (None, 0.87, True)],
)
def test_a_rung_is_worse_only_beyond_chance_on_test_rows_where_there_are_some(
    test: float | None, val: float, is_worse: bool
) -> None:
    other = Quality(val=val, val_rows=2_000, test=test, test_rows=10_000)
    assert other.is_worse_than(QUALITY) is is_worse


def test_the_epochs_of_a_sweep_are_cut_into_windows_and_the_rest_is_its_start_and_end() -> None:
    found = Found(
        wall_s=130.0, report_times=[float(n) for n in range(101)], configurations=[], quality=QUALITY
    )
    rest, windows = found.parts()
    assert (rest.value_s, windows.times, list(windows.seconds)) == (30.0, 10, [10.0] * 10)
    assert Rung("packed", [rest, windows], QUALITY).measured_pct == pytest.approx(100.0)


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=list(WORKLOADS))
def test_each_step_has_a_title_a_usual_duration_and_what_it_needs_before_it(workload: Workload) -> None:
    assert set(STEPS) == {"prepare", "start", *RUNGS, *PEERS} == set(TITLES)
    assert set(STEPS) == set(workload.minutes)
    order = list(STEPS)
    assert all(order.index(need) < order.index(step) for step, needs in NEEDS.items() for need in needs)
    assert story.with_needed(["pruned"]) == ["prepare", "start", "pruned"]


def test_a_sweep_is_asked_for_by_flags_that_the_command_takes(tmp_path: Path) -> None:
    from sweeps.run import main

    asked = Asked("gp", "halving", {"batch_size": 128}, 4, target=0.9)
    for workload in (smallest(FASHION_CNN), smallest(FACES)):
        words = sweep_runs.command(workload, asked, tmp_path, tmp_path, 2, on_gpu=False)
        with pytest.raises(SystemExit) as ended:
            main([*words[3:], "--print-config"])
        assert ended.value.code == 0


def test_what_is_finished_is_kept_and_other_settings_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quick = smallest(FASHION_CNN)
    folder = tmp_path / "quick" / "fashion_cnn"
    folder.mkdir(parents=True)
    story.Kept(folder / "steps.json", quick).add("prepare", {"seconds": [1.0]})
    assert story.Kept(folder / "steps.json", quick).steps == {"prepare": {"seconds": [1.0]}}
    story.Kept(folder / "others.json", dataclasses.replace(quick, max_epochs=9)).add("prepare", {})
    (folder / "others.json").replace(folder / "steps.json")
    assert story.main(["--quick", "--folder", str(tmp_path)]) == 2
    assert "steps.json holds rungs of other settings" in capsys.readouterr().err


def test_no_part_begins_that_would_end_after_the_minutes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert story.main(["--folder", str(tmp_path), "--minutes", "0.1", "--rungs", "naive"]) == 0
    out = capsys.readouterr().out
    assert "3 parts to measure, about 23 min" in out
    assert "--minutes are over before preparation of the rows; the same command goes on." in out


def test_images_are_files_with_the_pixels_and_labels_of_the_data_set(
    needs_fashion_mnist: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_fashion_images, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(_fashion_images, "IMAGES_OF_FOLDER", 20)
    files = _fashion_images.make_files("train", 30)
    images, labels = fashion_mnist.rows("train", 30)
    rows = [row for file in files for row in _fashion_images.listed(file)]
    assert [label for _, label in rows] == labels.tolist()
    assert np.array_equal(np.stack([_fashion_images.pixels(path) for path, _ in rows]), images.numpy())
    first = _fashion_images.ImageFiles(files)[0]
    assert first["image"].numpy() == pytest.approx(images[0].numpy() / 255)


@pytest.mark.long
def test_the_first_two_rungs_are_measured_and_an_interrupted_run_goes_on(
    needs_fashion_mnist: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "quick" / "fashion_cnn"
    folder.mkdir(parents=True)
    configurations = [{"rows": 300, "lr": 0.01 * n, "momentum": 0.9, "batch_size": 32} for n in (1, 2, 3, 4)]
    quality = {"val": 0.5, "val_rows": 100, "test": 0.5, "test_rows": 10_000, "borrowed_from": ""}
    begun = {"configurations": configurations, "quality": quality, "parts": []}
    story.Kept(folder / "steps.json", smallest(FASHION_CNN)).add("start", begun)
    words = ["--quick", "--folder", str(tmp_path), "--rungs", "naive", "prepared"]
    assert story.main(words) == 0
    assert "3 parts to measure" in capsys.readouterr().out
    steps = json.loads((folder / "steps.json").read_text())["steps"]
    naive, prepared = (Rung.from_json(steps[name]["rung"]) for name in ("naive", "prepared"))
    assert [part.times for part in naive.parts] == [1, 3, 4, 12]
    assert [len(part.seconds) for part in naive.parts] == [1, 1, 2, 2]
    assert prepared.parts[0].seconds == steps["prepare"]["seconds"]
    assert 0 < naive.measured_pct < 100
    assert story.main(words) == 0
    assert "0 parts to measure" in capsys.readouterr().out


def test_the_picture_draws_every_rung_in_days_out_of_713(tmp_path: Path) -> None:
    rows = [
        {"rung": "naive", "title": TITLES["naive"], "is_peer": False, "value_s": 7_130.0, "low_s": 7_000.0,
         "high_s": 7_200.0, "measured_pct": 1.0, "times": [1.0, 0.9, 1.1]},
        {"rung": "proposed", "title": TITLES["proposed"], "is_peer": False, "value_s": 33.0, "low_s": 30.0,
         "high_s": 36.0, "measured_pct": 100.0, "times": [216.1, 190.0, 240.0]},
        {"rung": "optuna", "title": TITLES["optuna"], "is_peer": True, "value_s": 330.0, "low_s": 330.0,
         "high_s": 330.0, "measured_pct": 100.0, "times": [21.6, 21.6, 21.6]},
    ]  # fmt: skip
    machine = {"cpu": "AMD EPYC 9000 2-Core Processor", "cores": 2}
    path = tmp_path / "story.svg"
    picture.write({"fashion_cnn": {"rows": rows, "machine": machine, "date": "2026-11-29"}}, path)
    texts = [element.text for element in ElementTree.parse(path).iter() if element.tag.endswith("text")]
    assert "713 days" in texts
    assert "33 days" in texts
    assert "3.3 days = 1/216  (33 s here)" in texts
    assert "fashion_cnn, measured on 2 cores of AMD EPYC 9000, 2026-11-29" in texts


def test_a_rung_that_a_machine_can_t_run_says_why(tmp_path: Path) -> None:
    tale = rungs.Story(FASHION_CNN, tmp_path, slots=2, on_gpu=False)
    with pytest.raises(rungs.NotHere, match="no GPU: a CPU computes in fp32"):
        rungs.precision(tale)


def test_the_whole_of_make_bench_takes_under_two_hours_and_each_part_takes_its_flags(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert everything.main(["--list"]) == 0
    out = capsys.readouterr().out
    assert "python -m benchmarks.story " in out
    assert sum(part.minutes for part in everything.PARTS) < 120
    for part in (*everything.PARTS, everything.GPU):
        parser = importlib.import_module(f"benchmarks.{part.name}")._parser()
        parser.parse_args(part.flags)


def test_a_benchmark_that_fails_is_named_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = (Benchmark("overhead", 1, ("--no-such-flag",)), Benchmark("scale", 1, ("--help",)))
    monkeypatch.setattr(everything, "PARTS", parts)
    assert everything.main(["--only", "overhead", "scale"]) == 1
    out = capsys.readouterr().out
    assert "[2/2, " in out
    assert out.endswith("Failed, see above: overhead\n")
