"""Files of `--params`: what lies beside weights trains them again, and a bad one is answered in a line."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from sweeps import fit, prepare
from sweeps.common.errors import UserError
from sweeps.kinds import params_file
from sweeps.training.config import FIT_SETTINGS, FitConfig
from sweeps.training.single_run import run_settings

TRAINED = FitConfig(
    max_epochs=5, metric="val_loss", mode="min", precision="bf16-mixed", compile=True, seed=7, threads=3
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "params.yaml"
    path.write_text(
        params_file.write(
            "digits_mlp", {"lr": 0.02}, TRAINED.settings(), {"score": 0.9, "epoch": 4}, ["Hello"]
        )
    )
    return path


def test_what_is_written_reads_back(file: Path) -> None:
    read = params_file.read(str(file), FIT_SETTINGS)
    assert (read.trainable, read.params) == ("digits_mlp", {"lr": 0.02})
    assert read.fit == {
        **{"max_epochs": 5, "metric": "val_loss", "mode": "min", "precision": "bf16-mixed"},
        **{"strategy": "auto", "compile": True, "seed": 7, "threads": 3},
    }
    assert file.read_text().startswith("# Hello\n")
    assert yaml.safe_load(file.read_text())["score"] == 0.9


@pytest.mark.parametrize("form", ["--params {}", "--params={}"])
def test_a_run_takes_all_that_the_file_says_and_flags_win(form: str, file: Path) -> None:
    tokens = form.format(file).split()
    run, module = run_settings.parse(["digits_mlp", *tokens])
    assert run.fit_config(module) == TRAINED
    assert run.params == {"lr": 0.02}
    typed = ("--seed", "1", "--no-compile", "--lr", "0.5", "--precision", "32")
    run, _ = run_settings.parse(["digits_mlp", *typed, *tokens])
    assert (run.fit.seed, run.fit.compile, run.fit.precision, run.fit.max_epochs) == (1, False, "32", 5)
    assert run.params == {"lr": 0.5}


def test_workers_are_in_the_file_where_there_are_several(file: Path) -> None:
    several = FitConfig(max_epochs=1, metric="m", mode="max", devices=2, micro_batch=8)
    file.write_text(params_file.write("digits_mlp", {}, several.settings(), {}))
    run, _ = run_settings.parse(["digits_mlp", "--params", str(file)])
    assert (run.fit.devices, run.fit.micro_batch) == (2, 8)


@pytest.mark.parametrize("text", ["lr: 0.02", "params: {lr: 0.02}", "params: {lr: 0.02}\nfit:\n"])
def test_a_file_of_hyperparameters_alone_says_nothing_else(text: str, file: Path) -> None:
    file.write_text(text)
    run, _ = run_settings.parse(["digits_mlp", "--params", str(file)])
    assert (run.params, run.fit.seed, run.fit.max_epochs) == ({"lr": 0.02}, 0, 27)


def test_a_preparation_takes_the_hyperparameters_and_leaves_the_rest(file: Path) -> None:
    file.write_text(params_file.write("faces", {"crop_pixels": 128, "lr": 0.02}, TRAINED.settings(), {}))
    asked = prepare.parse(["faces", "--params", str(file)])
    assert asked.hyperparameters["crop_pixels"] == 128


def test_a_trainable_may_be_named_otherwise_but_must_be_the_same(file: Path) -> None:
    run, _ = run_settings.parse(["trainables.digits_mlp", "--params", str(file)])
    assert run.params == {"lr": 0.02}
    with pytest.raises(UserError, match=r"a file of trainable digits_mlp, not of fashion_cnn$"):
        run_settings.parse(["fashion_cnn", "--params", str(file)])
    file.write_text("trainable: gone\nparams: {lr: 0.02}")
    with pytest.raises(UserError, match=r"a file of trainable gone, not of digits_mlp$"):
        run_settings.parse(["digits_mlp", "--params", str(file)])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "can't be read (No such file or directory)"),
        (b"\xff\xfe\x00", "can't be read ("),
        (b"a: [1\nb: 2", "not YAML: "),
        (b"- 1\n- 2", "must hold 'name: value' lines"),
        (b"", "must hold 'name: value' lines"),
        (b"params: 3", "params: must be 'name: value' lines"),
        (b"params: {lr: 0.1}\nfit: [1]", "fit: must be 'name: value' lines"),
        (b"params: {lr: 0.1}\nfit: {sed: 1}", "fit.sed: no such setting. Did you mean 'seed'?"),
        (b"params: {lrr: 0.1}", "lrr: no such hyperparameter. Did you mean 'lr'?"),
        (b"params: {lr: fast}", "lr=fast: must be a number"),
        (b"params: {lr: 0.1}\nfit: {precision: 33}", "fit.precision 33: must be one of auto, 32,"),
        (b"params: {lr: 0.1}\nfit: {seed: many}", "fit.seed many: must be a whole number"),
    ],
)
def test_a_bad_file_is_answered_in_a_line_with_status_2(
    content: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "params.yaml"
    if content is not None:
        path.write_bytes(content)
    assert fit.main(["digits_mlp", "--params", str(path), "--results-dir", str(tmp_path / "r")]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.startswith("error: --")
    assert len(said.splitlines()) == 1


def test_a_pair_of_more_characters_than_a_file_name_has_names_no_file() -> None:
    assert params_file.named(f"prompt={'very ' * 100}") == ""
    with pytest.raises(UserError, match="File name too long"):
        params_file.named("s" * 300)
