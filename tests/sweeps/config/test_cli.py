"""Flags and YAML to a SweepConfig, and the answer to a mistake in either."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sweeps.common import project
from sweeps.common.local_dirs import DATA_DIR_VARIABLE
from sweeps.config.cli import parse
from sweeps.config.sweep_config import SweepConfig, flag
from sweeps.run import main as run_main
from sweeps.training.config import FitConfig
from tests.sweeps.config.typed import faults, sweep_in, yaml_file


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATA_DIR_VARIABLE, "as it was")  # put back afterwards, whatever a test does to it


def test_without_flags_all_is_as_the_dataclass_has_it() -> None:
    assert parse([]) == SweepConfig()


def test_a_flag_sets_its_field_in_its_type() -> None:
    typed = ["--num-trials", "5", "--gpus-per-trial=0.5", "--mode", "min", "--name", "7"]
    expected = SweepConfig.from_settings(
        num_trials=5, gpus_per_trial=0.5, mode="min", name="7", ray_dashboard=False, dry_run=True
    )
    assert parse([*typed, "--no-ray-dashboard", "--dry-run"]) == expected


def test_a_flag_of_yes_or_no_may_be_taken_back() -> None:
    taken_back = [
        "--dry-run",
        "--no-dry-run",
        "--no-ray-dashboard",
        "--ray-dashboard",
        "--force",
        "--no-force",
        "--compile",
        "--no-compile",
    ]
    assert parse(taken_back) == SweepConfig()


@pytest.mark.parametrize("order", ["file first", "flag first"])
def test_a_flag_wins_over_the_file(order: str, tmp_path: Path) -> None:
    from_file = ["--config", yaml_file(tmp_path, "num_trials: 5\nseed: 3\n")]
    arguments = [*from_file, "--seed", "4"] if order == "file first" else ["--seed", "4", *from_file]
    assert parse(arguments) == SweepConfig.from_settings(num_trials=5, seed=4)


def test_params_are_typed_by_what_they_look_like() -> None:
    given = ["rows=0", "lr=1e-3", "dropout=0.0", "act=relu", "bias=true", "negative=-2", "path=a=b"]
    expected = {
        "rows": 0,
        "lr": 0.001,
        "dropout": 0.0,
        "act": "relu",
        "bias": True,
        "negative": -2,
        "path": "a=b",
    }
    params = parse(["--params", *given]).params
    assert {name: repr(value) for name, value in params.items()} == {
        name: repr(value) for name, value in expected.items()
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ["--params", "rows=0", "width=16", "--seed", "1"],
        ["--params", "rows=0", "--seed", "1", "--params", "width=16"],
        ["--params=rows=0", "--params=width=16", "--seed", "1"],
    ],
)
def test_params_may_be_given_in_one_go_or_one_by_one(arguments: list[str]) -> None:
    assert parse(arguments) == SweepConfig.from_settings(seed=1, params={"rows": 0, "width": 16})


def test_a_range_of_a_flag_wins_over_a_value_of_the_file_and_a_value_over_a_range(tmp_path: Path) -> None:
    path = yaml_file(tmp_path, "params: {hidden: 16, rows: 0}\nspace: {lr: 1e-4..1e-1, width: [4, 8]}\n")
    config = parse(["--config", path, "--ranges", "hidden=16,32", "--params", "lr=0.1"])
    assert config.ranges == {"width": [4, 8], "hidden": "16,32"}
    assert config.params == {"rows": 0, "lr": 0.1}
    assert parse(["--config", path, "--freeze", "hidden=32"]).params == {"rows": 0}
    both = parse(["--config", path, "--ranges", "lr=1,2", "--params", "lr=1"])  # the plan refuses it
    assert ("lr" in both.params, "lr" in both.ranges) == (True, True)


def test_params_of_flags_are_merged_into_those_of_the_file(tmp_path: Path) -> None:
    path = yaml_file(tmp_path, "params:\n  width: 4\n  lr: 0.1\n")
    assert parse(["--config", path, "--params", "width=8", "rows=0"]).params == {
        "width": 8,
        "lr": 0.1,
        "rows": 0,
    }


@pytest.mark.parametrize(
    ("arguments", "trainable", "search_space"),
    [
        (["--trainable", "a"], "a", None),
        (["--trainable=a"], "a", None),
        (["--trainable", "a", "b", "--seed", "1"], ["a", "b"], None),
        (["--seed", "1", "--trainable=a", "b.c"], ["a", "b.c"], None),
        (["--trainable", "a", "b", "--search-space", "s", "t"], ["a", "b"], ["s", "t"]),
        (["--trainable", "7", "8"], ["7", "8"], None),
    ],
)
def test_a_trainable_or_several_with_a_space_between(
    arguments: list[str], trainable: object, search_space: object
) -> None:
    config = parse(arguments)
    assert (config.trainable, config.search_space) == (trainable, search_space)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("trainable: a\n", "a"),
        ("trainable: [a]\n", "a"),
        ("trainable: [a, b]\n", ["a", "b"]),
        ("trainable:\n- a\n- b\n", ["a", "b"]),
    ],
)
def test_a_file_names_a_trainable_or_several_and_a_flag_wins(
    text: str, expected: object, tmp_path: Path
) -> None:
    path = yaml_file(tmp_path, text)
    assert parse(["--config", path]).trainable == expected
    assert parse(["--config", path, "--trainable", "c"]).trainable == "c"
    assert parse(["--config", path, "--trainable", "c", "d"]).trainable == ["c", "d"]


def test_params_of_one_trainable_have_its_name_before_them(tmp_path: Path) -> None:
    path = yaml_file(tmp_path, "params:\n  a.depth: 2\n  my_project.b.lr: 1e-3\n")
    assert parse(["--config", path, "--params", "rows=0", "a.depth=3"]).params == {
        "a.depth": 3,
        "my_project.b.lr": 0.001,
        "rows": 0,
    }


def test_params_leave_no_trace_in_the_next_config() -> None:
    parse(["--params", "width=8"])
    assert parse([]).params == {}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--num-trails", "5"], "--num-trails: no such flag. Did you mean '--num-trials'?"),
        (["--num_trials=5"], "--num_trials: no such flag. Did you mean '--num-trials'?"),
        (["--num-tri", "5"], "--num-tri: no such flag. Did you mean '--num-trials'?"),
        (
            ["--lr", "0.1"],
            "--lr: no such flag. A fixed hyperparameter is given as --params lr=VALUE, a range of one as "
            "--ranges lr=LOW..HIGH",
        ),
        *(
            (
                ["--freeze", f"bias={several}"],
                f"--freeze bias={several}: give one value; --ranges takes a range or choices",
            )
            for several in ("true,false", "0,1", "0.1..0.5")
        ),
        (["--num-trials", "many"], "--num-trials many: must be a whole number"),
        (["--num-trials", "2.5"], "--num-trials 2.5: must be a whole number"),
        (["--gpus-per-trial", "half"], "--gpus-per-trial half: must be a number"),
        (["--mode", "maximum"], "--mode maximum: must be one of min, max. Did you mean 'max'?"),
        (["--precision", "f32"], "--precision f32: must be one of auto, 32, 16-mixed, bf16-mixed, 64."),
        (["--params", "rows"], "--params rows: give name=value, as in --params rows=0 width=16"),
        (["--params", "a..b=1"], "--params a..b=1: give name=value, as in --params rows=0 width=16"),
        (["--params", ".b=1"], "--params .b=1: give name=value, as in --params rows=0 width=16"),
        (["--trainable"], "--trainable: expected at least one argument"),
        (["--trainable", "a", "b", "a"], "--trainable a b a: a name is given twice"),
        (["--params", "rows=0", "7"], "--params 7: give name=value, as in --params rows=0 width=16"),
        (["--num-trials"], "--num-trials: expected one argument"),
        (["--resume="], "--resume: give the name of a sweep, as in --resume NAME"),
        (["--refine="], "--refine: give the name of a sweep, as in --refine NAME"),
        (["--force"], "--force needs --resume"),
        (["--priority", "5"], "--priority needs --queue"),
        (["--queue", "--priority", "high"], "--priority high: must be a whole number"),
        (["--queue", "--priority", "5000"], "--priority 5000: must be at least -100 and at most 100"),
        (["--config"], "--config: expected one argument"),
        (["lr=0.1"], "lr=0.1: not a flag. A fixed hyperparameter is --params lr=0.1"),
        (["cnn", "--trainable", "vit"], "cnn: --trainable names what is trained already"),
        (["--max-epochs", "0", "--grace-epochs", "0"], "--max-epochs 0: must be at least 1"),
    ],
)
def test_a_bad_flag_is_answered_in_plain_words(arguments: list[str], expected: str) -> None:
    assert faults(*arguments)[0].startswith(expected)


def test_all_misspelt_flags_are_found_at_once() -> None:
    found = faults("--num-trails", "5", "--sead", "3", "--seed", "2")
    assert [fault.split(":")[0] for fault in found] == ["--num-trails", "--sead", "All flags"]


def test_a_list_that_is_typed_twice_has_the_values_of_both() -> None:
    typed = ["--constraint", "params_m<=5", "--constraint", "latency_ms<20", "acc>0", "--metric=a:max"]
    config = parse([*typed, "--metric", "b:min"])
    assert config.constraint == ["params_m<=5", "latency_ms<20", "acc>0"]
    assert config.metric == ["a:max", "b:min"]


def test_the_queue_is_of_one_start_and_may_be_typed_twice(tmp_path: Path) -> None:
    config = parse(["--queue", "--queue", "--priority", "-3"])
    assert (config.queue, config.priority) == (True, -3)
    (fault,) = faults("--config", yaml_file(tmp_path, "queue: true\n"))
    assert fault.endswith("queue: can't be set in a file: use the flag --queue")


def test_a_flag_takes_a_setting_of_a_file_back(tmp_path: Path) -> None:
    path = yaml_file(tmp_path, "num_trials: 5\ncompile: true\nprecision: 32\n")
    config = parse(["--config", path, "--num-trials", "null", "--no-compile"])
    assert (config.num_trials, config.fit) == (None, FitConfig(precision="32"))


def test_all_values_out_of_range_are_found_at_once() -> None:
    found = faults("--num-trials", "0", "--seed", "-1", "--name", "a/b")
    assert [fault.split()[0] for fault in found] == ["--seed", "--num-trials", "--name"]


def test_the_data_folder_goes_into_the_environment_and_not_into_the_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse(["--data-dir", "raw"]) == SweepConfig()
    assert os.environ[DATA_DIR_VARIABLE] == str(tmp_path / "raw")  # whole: workers have other folders
    with pytest.raises(SystemExit):
        parse(["--data-dir", "raw", "--print-config"])
    assert "data_dir" not in capsys.readouterr().out


def test_without_a_data_folder_the_environment_stays_as_it_was() -> None:
    parse([])
    assert os.environ[DATA_DIR_VARIABLE] == "as it was"


def test_print_config_prints_yaml_that_reads_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--num-trials",
        "5",
        "--precision",
        "32",
        "--params",
        "rows=0",
        "act=relu",
        "--no-ray-dashboard",
    ]
    with pytest.raises(SystemExit) as ended:
        parse([*arguments, "--print-config"])
    assert ended.value.code == 0
    assert parse(["--config", yaml_file(tmp_path, capsys.readouterr().out)]) == parse(arguments)


def test_help_names_every_flag_and_the_default_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["--help-all"])
    assert ended.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert [name for name in SweepConfig.settings() if flag(name) not in shown] == []
    assert "(default: 27)" in shown
    assert "(default: on)" in shown


def test_the_short_help_begins_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["--help"])
    assert ended.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 48
    (first,) = (line for line in lines if line.endswith("run digits -n 24"))
    assert lines.index(first) < 6
    flags = [line.split()[0].rstrip(",") for line in lines if line.startswith("  -")]
    expected = ["-c", "--ranges", "-n", "-j", "--max-epochs", "--time-budget-hours", "--name"]
    assert flags == ["--json", *expected, "--resume", "--refine", "--dry-run"]
    assert lines[-1].endswith("run --help-all")


def test_what_is_typed_most_is_short() -> None:
    config = parse(["digits_mlp", "-n", "5", "-j", "2"])
    assert (config.trainables, config.num_trials, config.max_concurrent) == (["digits_mlp"], 5, 2)
    several = parse(["-n", "5", "digits_mlp", "fashion_cnn"])
    assert several.trainables == ["digits_mlp", "fashion_cnn"]
    assert run_main(["-n", "many"]) == 2


def test_a_mistake_ends_the_program_with_status_2_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_main(["--num-trials", "many"]) == 2
    assert capsys.readouterr().err == "error: --num-trials many: must be a whole number\n"


@pytest.mark.parametrize("form", ["--resume {}", "--resume={}", "--resume {}/", "--resume {}/../s"])
def test_a_resume_takes_the_settings_of_its_folder_and_its_place(form: str, tmp_path: Path) -> None:
    """It may have been moved or renamed since."""
    folder = sweep_in(tmp_path / "moved", "s")
    expected = SweepConfig.from_settings(
        name="s", results_dir=str(tmp_path / "moved"), num_trials=5, seed=3, resume=str(folder)
    )
    assert parse(form.format(folder).split()) == expected


def test_a_folder_to_resume_may_be_given_as_one_types_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = sweep_in(tmp_path / "results", "s")
    monkeypatch.chdir(tmp_path)
    assert parse(["--resume", "results/s"]).resume == str(folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parse(["--resume", "~/results/s"]).resume == str(folder)
    monkeypatch.chdir(folder)
    assert (parse(["--resume", "."]).name, parse(["--resume", "."]).resume) == ("s", str(folder))


@pytest.mark.parametrize("order", ["folder first", "flags first"])
def test_flags_win_over_the_settings_of_the_folder(order: str, tmp_path: Path) -> None:
    resume = ["--resume", str(sweep_in(tmp_path, "s", "num_trials: 5\nparams:\n  width: 4\n  lr: 0.1\n"))]
    given = ["--num-trials", "9", "--force", "--params", "width=8"]
    config = parse([*resume, *given] if order == "folder first" else [*given, *resume])
    assert (config.num_trials, config.force, config.params) == (9, True, {"width": 8, "lr": 0.1})


def test_the_folder_of_a_sweep_may_be_renamed_to_anything(tmp_path: Path) -> None:
    assert parse(["--resume", str(sweep_in(tmp_path, "best of May (kept)"))]).name == "best of May (kept)"


def test_a_sweep_to_resume_brings_its_own_settings(tmp_path: Path) -> None:
    folder = sweep_in(tmp_path, "s")
    expected = ["--config can't be combined with --resume: a resumed sweep keeps its settings"]
    assert faults("--resume", str(folder), "--config", str(folder / "sweep.yaml")) == expected
    assert faults(f"--config={folder}/sweep.yaml", f"--resume={folder}") == expected


def test_the_settings_printed_of_a_resume_are_those_of_a_new_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = sweep_in(tmp_path / "results", "s")
    with pytest.raises(SystemExit):
        parse(["--resume", str(folder), "--force", "--print-config"])
    again = parse(["--config", yaml_file(tmp_path, capsys.readouterr().out)])
    assert again == parse(["--resume", str(folder)]).changed(resume=None)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("--submit",), "--submit needs --address"),
        (("--submit", "--address", "ray://h:1"), "--address ray://h:1: give HOST:6379, auto, or http://"),
        (("--submit", "--address", "h:1", "--dry-run"), "--dry-run can't be combined with --submit: a plan"),
        (
            ("--submit", "--address", "h:1", "--dashboard"),
            "--dashboard can't be combined with --submit: the page would open on the head. Run `sweeps",
        ),
        (
            ("--submit", "--address", "h:1", "--resume", "results/there", "--params", "a=1"),
            "--params can't be combined with --submit --resume: the sweep keeps its own",
        ),
        (("--address", "http://h:8265"), "--address http://h:8265: give HOST:6379, or auto (or http"),
    ],
)
def test_what_makes_no_sense_with_submit_is_refused(arguments: tuple[str, ...], fault: str) -> None:
    assert [line[: len(fault)] for line in faults(*arguments)] == [fault]


def test_a_sweep_to_resume_may_lie_on_the_head() -> None:
    config = parse(["--submit", "--address", "h:1", "--resume", "results/there"])
    assert (config.submit, config.resume) == (True, "results/there")


def test_the_settings_of_an_earlier_sweep_bring_its_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    (mine / "trainables").mkdir(parents=True)
    (mine / "trainables/net.py").touch()
    folder = sweep_in(tmp_path / "results", "s", "trainable: net\n")
    (folder / "record.journal").write_text(json.dumps({"user_attr": {"project": str(mine)}}) + "\n")
    monkeypatch.setenv("PYTHONPATH", "")
    try:
        parse(["--config", str(folder / "sweep.yaml"), "--name", "s-again"])
        assert project.folder() == mine
        parse(["--config", yaml_file(tmp_path, "trainable: net\n")])
        assert project.folder() == Path.cwd(), "a file that is no sweep's names none"
    finally:
        project.use()


def test_names_of_hyperparameters_may_be_nested_by_a_slash() -> None:
    config = parse(["--ranges", "optimizer/lr=0.1..1", "--params", "data/rows=3"])
    assert (config.ranges, config.params) == ({"optimizer/lr": "0.1..1"}, {"data/rows": 3})
