"""Settings that are read from files: those of --config and those of a sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.config.cli import parse
from sweeps.config.sweep_config import SweepConfig
from tests.sweeps.config.typed import faults, sweep_in, yaml_file


def test_a_file_sets_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    path = yaml_file(tmp_path, "num_trials: 5\nray_dashboard: false\n")
    assert parse(["--config", path]) == SweepConfig.from_settings(num_trials=5, ray_dashboard=False)
    assert parse([f"--config={path}"]) == SweepConfig.from_settings(num_trials=5, ray_dashboard=False)


def test_a_number_in_a_file_may_have_an_exponent_without_a_point(tmp_path: Path) -> None:
    assert parse(["--config", yaml_file(tmp_path, "params:\n  lr: 1e-3\n")]).params == {"lr": 0.001}


def test_a_text_of_a_file_is_read_once(tmp_path: Path) -> None:
    """So a sweep whose command has a # can be resumed."""
    command = "command:python train.py --note 'run #3' --lr {lr}"
    assert parse(["--config", yaml_file(tmp_path, f'trainable: "{command}"\n')]).trainable == command


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("num_trails: 5\n", "num_trails: no such key. Did you mean 'num_trials'?"),
        ("print_config: true\n", "print_config: no such key."),
        ("data_dir: /data\n", "data_dir: no such key."),
        ("num_trials: many\n", "sweep.yaml: num_trials many: must be a whole number"),
        ("seed: null\n", "sweep.yaml: seed None: must be a whole number"),
        ("ray_dashboard: 3\n", "ray_dashboard 3: must be true or false"),
        ("resume: results/s\n", "resume: can't be set in a file: use the flag --resume"),
        ("force: true\n", "force: can't be set in a file: use the flag --force"),
        ("trainable: 3\n", "sweep.yaml: trainable 3: must be text"),
        ("trainable: [a, 3]\n", "sweep.yaml: trainable 3: must be text"),
        ("trainable: []\n", "--trainable: give at least one"),
        ("params: 3\n", "params 3: must be 'name: value' lines"),
        ("params: {1: 2}\n", "params {1: 2}: must be 'name: value' lines"),
        ("tries: [{null: 2}]\n", "tries {None: 2}: must be 'name: value' lines"),
        ("space: net_wide\n", "space net_wide: must be 'name: value' lines; the name of a search space is"),
        ("ranges: {lr: 0..1}\n", "ranges: no such key"),
        ("time_budget_hours: 1:30\n", "time_budget_hours 1:30: must be a number"),
        ("keep_going: on\n", "keep_going on: must be true or false"),
        ("metric: {acc: max}\n", "metric {'acc': 'max'}: must be text, as in val_acc:max"),
        ("metric:\n- {acc: max}\n- {size: min}\n", "metric {'acc': 'max'}: must be text, as in val_acc:max"),
        ("- a\n", "must hold 'name: value' lines"),
        ("", "must hold 'name: value' lines"),
        ("a: [\n", "not YAML"),
        ("space: {a: 1}\nspace: {b: 2}\n", "not YAML: space is given twice in "),
        ("params:\n  lr: 1\n  lr: 2\n", 'not YAML: lr is given twice in "<unicode string>", line 3'),
        ("max_epochs: 0\n", "--max-epochs 0: must be at least 1"),
    ],
)
def test_a_bad_file_is_answered_in_plain_words(text: str, expected: str, tmp_path: Path) -> None:
    assert expected in faults("--config", yaml_file(tmp_path, text))[0]


def test_a_space_in_a_file_is_that_of_ranges(tmp_path: Path) -> None:
    path = yaml_file(tmp_path, "space:\n  lr: 1e-4..1e-1:log\n  act: relu,gelu\n  rows: 8..64:8\n")
    typed = ("lr=1e-4..1e-1:log", "act=relu,gelu", "rows=8..64:8")
    assert parse(["--config", path]) == parse(["--ranges", *typed])
    assert parse(["--config", path, "--ranges", "lr=0.1"]).ranges["lr"] == 0.1


def test_several_mappings_may_be_merged_each_by_a_line(tmp_path: Path) -> None:
    path = yaml_file(tmp_path, "params:\n  <<: {lr: 1, hidden: 2}\n  <<: {hidden: 3, layers: 4}\n  lr: 5\n")
    assert parse(["--config", path]).params == {"lr": 5, "hidden": 3, "layers": 4}


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "none.yaml")
    assert faults("--config", path) == [f"--config {path}: can't be read (No such file or directory)"]


def test_all_misspelt_keys_are_found_at_once(tmp_path: Path) -> None:
    path = yaml_file(tmp_path, "num_trails: 5\nsead: 3\nseed: 2\n")
    assert [fault.split(": ")[1] for fault in faults("--config", path)] == ["num_trails", "sead"]


def test_all_values_of_another_type_are_found_at_once(tmp_path: Path) -> None:
    found = faults("--num-trials", "x", "--mode", "maximum", "--params", "rows", "--seed", "1")
    assert [fault.split(":")[0] for fault in found] == [
        "--num-trials x",
        "--mode maximum",
        "--params rows",
    ]
    path = yaml_file(tmp_path, "num_trials: many\nseed: 1.5\nnmae: s\n")
    found = [fault.removeprefix(f"{path}: ") for fault in faults("--config", path)]
    assert [fault.split(":")[0] for fault in found] == ["num_trials many", "seed 1.5", "nmae"]


def test_settings_without_a_record_are_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = sweep_in(tmp_path, "s")
    (folder / "record.journal").unlink()
    assert faults("--resume", str(folder)) == [
        f"--resume {folder}: record.journal is missing, so its trials are lost. "
        f"Start a new sweep: --config {folder}/sweep.yaml"
    ]


def test_another_sweep_than_the_one_that_began_is_refused_before_anything_is_looked_for(
    tmp_path: Path,
) -> None:
    folder = sweep_in(tmp_path, "s", "trainable: [cnn]\nparams: {width: 4}\nmax_epochs: 9\n")
    assert parse(["--resume", str(folder), "--trainable", "cnn", "--max-epochs", "9"]).trainable == "cnn"
    assert parse(["--resume", str(folder), "--max-epochs", "27"]).max_epochs == 27
    (fewer,) = faults("--resume", str(folder), "--max-epochs", "3")
    assert fewer.startswith("--max-epochs 3: the sweep has 9, and its trials were pruned for an end at 9")
    assert faults("--resume", str(folder), "--trainable", "none_such", "--max-epochs", "9") == [
        "--trainable none_such: the sweep has cnn",
        "Its trials were scored, pruned and saved with these settings. Start a new sweep to change them; "
        "`--refine NAME` starts one that learns from these trials.",
    ]


@pytest.mark.parametrize(
    ("trainable", "typed"),
    [
        ("net", ["net.py"]),
        ("net", ["--trainable", "net"]),
        ("command:python train.py --lr {lr}", ["--command", "python train.py --lr {lr}"]),
        ("lightning-cli:cli:config.yaml", ["cli.py", "-c", "config.yaml"]),
    ],
)
def test_a_resume_may_say_again_what_is_trained_and_by_what_it_is_judged(
    trainable: str, typed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the command that began it may be typed again, with --resume."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text("def build_model(params): ...\n")
    (tmp_path / "cli.py").write_text("from lightning.pytorch.cli import LightningCLI\n")
    sweep_in(tmp_path / "results", "s", f'trainable: "{trainable}"\nmetric: val_acc\nmode: max\n')
    expected = parse(["--resume", "s"])
    assert parse([*typed, "--metric", "val_acc:max", "--resume", "s"]) == expected
    assert expected.trainable == trainable
    assert (
        faults("--resume", "s", "--metric", "val_acc:min")[0] == "--metric val_acc:min: the sweep has val_acc"
    )
    assert faults("--resume", "s", "--command", "python other.py {lr}")[0] == (
        f"--trainable command:python other.py {{lr}}: the sweep has {trainable}"
    )


def test_what_a_flag_trains_takes_the_place_of_what_a_file_names(tmp_path: Path) -> None:
    path = yaml_file(tmp_path, "trainable: cnn\n")
    config = parse(["--config", path, "--command", "python train.py {lr}"])
    assert (config.trainable, config.command) == (None, "python train.py {lr}")


def test_settings_of_a_folder_that_can_not_be_read_are_named(tmp_path: Path) -> None:
    fault, advice = faults("--resume", str(sweep_in(tmp_path, "s", "num_trails: 5\n")))
    assert "to resume it, use that version" in advice
    assert "sweep.yaml: num_trails: no such key. Did you mean 'num_trials'?" in fault
