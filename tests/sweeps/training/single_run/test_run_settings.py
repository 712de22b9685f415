"""`python -m sweeps.fit`: its flags, and the answers to mistakes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from sweeps.common.errors import UserError
from sweeps.fit import main
from sweeps.kinds import params_file
from sweeps.training.single_run import run_settings
from tests.conftest import ROOT


def parsed(*arguments: str) -> run_settings.SingleRun:
    return run_settings.parse(arguments)[0]


def test_hyperparameters_have_flags_of_their_own(tmp_path: Path) -> None:
    run = parsed(
        "digits_mlp", "--lr", "0.01", "--hidden=16", "--max-epochs", "2", "--results-dir", str(tmp_path)
    )
    assert run.params == {"lr": 0.01, "hidden": 16}
    assert (run.trainable, run.fit.max_epochs) == ("digits_mlp", 2)
    assert re.fullmatch(r"fit-digits_mlp-\d{8}-\d{6}(-\d+)?", str(run.name))


def test_a_hyperparameter_with_the_name_of_a_flag_is_set_by_params(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, place = "tests.faulty.named_like_flags", ("--results-dir", str(tmp_path))
    run = parsed(name, "--lr", "0.2", "--params", "params=7", "no_test=3", "help=2", "--no-test", *place)
    assert run.params == {"lr": 0.2, "params": 7, "no_test": 3, "help": 2}
    assert not run.test
    with pytest.raises(SystemExit):
        parsed(name, "--help")
    assert "Learning rate (default: 0.1)." in capsys.readouterr().out


def test_params_come_from_a_file_too_and_what_is_typed_wins(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("trainable: digits_mlp\nparams:\n  lr: 1e-3\n  hidden: 64\n")
    assert parsed("digits_mlp", "--params", str(path)).params == {"lr": 0.001, "hidden": 64}
    run = parsed("digits_mlp", "--params", str(path), "--hidden", "8", "--params", "momentum=0.5")
    assert run.params == {"lr": 0.001, "hidden": 8, "momentum": 0.5}
    (tmp_path / "first" / "best").mkdir(parents=True)
    path.rename(tmp_path / "first" / "best" / "params.yaml")
    assert parsed("digits_mlp", "--params", str(tmp_path / "first")).params == {"lr": 0.001, "hidden": 64}
    assert parsed("--params", str(tmp_path / "first")).trainable == "digits_mlp", "the file names it"


def test_a_sweep_or_a_run_is_named_as_in_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (best := tmp_path / "results" / "first" / "best").mkdir(parents=True)
    (best / "params.yaml").touch()
    (best.parent / "fit.yaml").write_text("trainable: digits_mlp\n")
    assert (
        params_file.named("first") == params_file.named("results/first") == "results/first/best/params.yaml"
    )
    assert params_file.named("lr=0.1") == params_file.named("frist") == ""
    with pytest.raises(UserError, match=r"--params frist: no sweep or run in .* Did you mean 'first'\?"):
        run_settings.parse(["digits_mlp", "--params", "frist"])
    with pytest.raises(UserError, match="--resume first: this run has finished"):
        run_settings.parse(["--resume", "first"])
    with pytest.raises(UserError, match="--resume results/first: this run has finished"):
        run_settings.parse(["--resume"])


def test_a_run_that_goes_on_is_told_where_its_folders_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fit.yaml").write_text("trainable: digits_mlp\n")
    for name in ("SWEEPS_DATA_DIR", "SWEEPS_PREPARED_DIR"):
        monkeypatch.setenv(name, "before")
    run_settings.parse(["--resume", str(tmp_path), "--data-dir", "/raw", "--prepared-dir=/prepared"])
    assert (os.environ["SWEEPS_DATA_DIR"], os.environ["SWEEPS_PREPARED_DIR"]) == ("/raw", "/prepared")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "trainable: this project has several; give one of digits_mlp, faces, fashion_cnn"),
        (("fashon_cnn",), r"trainable fashon_cnn: no such trainable. Did you mean 'fashion_cnn'\?"),
        (("digits_mlp", "--larning-rate", "1"), "--larning-rate: no such flag"),
        (("digits_mlp", "--max-epoch", "1"), r"--max-epoch: no such flag. Did you mean '--max-epochs'\?"),
        (
            ("digits_mlp", "--params", "hiden=3"),
            r"--params hiden: no such hyperparameter. Did you mean 'hidden'\?",
        ),
        (("digits_mlp", "--hidden", "3.5"), "--hidden 3.5: must be a whole number"),
        (("digits_mlp", "--hidden", "-1"), "--params: hidden -1: must be above 0"),
        (("digits_mlp", "--hidden"), "--hidden: expected one argument"),
        (("digits_mlp", "--max-epochs", "0"), "--max-epochs 0: must be at least 1"),
        (("digits_mlp", "--max-epochs", "some"), "--max-epochs some: must be a whole number"),
        (
            ("digits_mlp", "--precision", "fp16"),
            "--precision fp16: must be one of auto, 32, 16-mixed, bf16-mixed",
        ),
        (("digits_mlp", "--strategy", "zero"), "--strategy zero: must be one of auto, single, ddp"),
        (
            ("digits_mlp", "--num-nodes", "2", "--find-batch-size"),
            "--find-batch-size: it starts the workers of its tries itself, on one PC",
        ),
        (("digits_mlp", "--seed", "-1"), "--seed -1: must be at least 0 and at most 4,294,967,295"),
        (("digits_mlp", "--params", "/nowhere.yaml"), "--params /nowhere.yaml: can't be read"),
        (("--resume", "/nowhere"), r"--resume /nowhere: no run of sweeps fit"),
        (("--resume", "results/a", "--lr", "1"), "--lr: a resumed run keeps its settings"),
    ],
)
def test_a_mistake_is_answered(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run_settings.parse(arguments)


def test_a_run_has_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(UserError, match=r"--name mine: .*mine exists already; --resume it"):
        parsed("digits_mlp", "--name", "mine", "--results-dir", str(tmp_path))
    with pytest.raises(UserError, match=r"exists already"):
        parsed("digits_mlp", "--name", "", "--results-dir", str(tmp_path))


def test_a_hyperparameter_that_is_called_as_a_setting_goes_through_params(tmp_path: Path) -> None:
    (tmp_path / "clashing.py").write_text(
        "from dataclasses import dataclass\n"
        'METRIC, MODE = "val_acc", "max"\n'
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Params:\n"
        "    devices: str = 'cpu'\n"
        "def build_model(params): ...\n"
        "def build_data(params): ...\n"
    )
    command = [
        sys.executable,
        "-c",
        (
            "from sweeps.training.single_run import run_settings as single\n"
            "run, _ = single.parse(['clashing', '--devices', '2', '--params', 'devices=gpu'])\n"
            "print(run.fit.devices, run.params)"
        ),
    ]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.stdout.strip() == "2 {'devices': 'gpu'}", done.stderr


def test_a_run_whose_hyperparameters_have_changed_does_not_go_on(tmp_path: Path) -> None:
    (tmp_path / "fit.yaml").write_text("trainable: digits_mlp\nparams:\n  hiden: 8\n  lr: 0.1\n")
    with pytest.raises(
        UserError,
        match=r"digits_mlp has changed and no longer fits fit.yaml\n--params hiden: no such",
    ) as raised:
        run_settings.parse(["--resume", str(tmp_path)])
    assert "Did you mean 'hidden'?" in str(raised.value)


def test_a_place_that_can_not_be_made_is_known_before_anything_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"--results-dir \S+/file/a: \S+/file is not a writable"):
        parsed("digits_mlp", "--results-dir", str(tmp_path / "file/a"))


# Whole runs.


@pytest.mark.slow
def test_raw_data_that_is_missing_is_a_mistake_in_the_words_of_a_sweep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--data-dir", str(tmp_path), "--results-dir", str(tmp_path / "results"))
    assert main(["fashion_cnn", *where]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: Fashion-MNIST is not in {tmp_path} (--data-dir or $SWEEPS_DATA_DIR)")
    assert not (tmp_path / "results").exists()
    command = [sys.executable, "-m", "sweeps.run", "--trainable", "fashion_cnn", *where, "--dry-run"]
    asked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (asked.returncode, asked.stderr) == (2, said)


def fit(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sweeps.fit", *arguments]
    variables = {**os.environ, **environment}
    return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=300)


def test_help_names_the_hyperparameters_with_their_meaning() -> None:
    done = fit("digits_mlp", "--help")
    assert done.returncode == 0
    assert re.search(r"--hidden VALUE\s+Units of the hidden layer, > 0 \(default: 32\)", done.stdout)
    assert "--precision {auto,32,16-mixed,bf16-mixed,64}" in done.stdout
    assert "a trainable of the project (digits_mlp, faces, fashion_cnn" in " ".join(
        fit("--help").stdout.split()
    )


@pytest.mark.slow
def test_a_run_leaves_what_it_learned(tmp_path: Path) -> None:
    done = fit(
        "digits_mlp",
        "--lr",
        "0.1",
        "--max-epochs",
        "3",
        "--name",
        "mine",
        "--results-dir",
        str(tmp_path),
        "--test",
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    folder = tmp_path / "mine"
    epochs = [json.loads(line) for line in (folder / "epochs.jsonl").read_text().splitlines()]
    assert [epoch["epoch"] for epoch in epochs] == [1, 2, 3]
    best = max(epochs, key=lambda epoch: epoch["val_acc"])
    assert f"Best       val_acc {best['val_acc']:.4g} in epoch {best['epoch']}" in done.stdout
    assert re.search(r"Test +test_acc 0\.\d+", done.stdout)
    assert re.search(r"Time +\d+ s: data wait \d+ %, transfer \d+ %, forward \d+ %", done.stdout)
    assert "Verdict    " in done.stdout
    about = yaml.safe_load((folder / "best" / "params.yaml").read_text())
    assert about["params"] == {"lr": 0.1}
    assert about["epoch"] == best["epoch"]
    weights = torch.load(folder / "best" / "weights.pt", weights_only=True)
    assert weights["net.0.weight"].shape == (32, 64)
    assert weights["net.0.weight"].dtype == torch.float32
    assert not (folder / "checkpoints").exists()


STOPPED = """
import os, signal
from pathlib import Path
from trainables import digits_mlp
from trainables.digits_mlp import METRIC, MODE, Params, build_data, describe_data

def build_model(params):
    model = digits_mlp.build_model(params)

    def interrupt_once():
        if model.current_epoch == 2 and not Path("interrupted").exists():
            Path("interrupted").touch()
            os.kill(os.getpid(), signal.SIGINT)

    model.on_train_epoch_start = interrupt_once
    return model
"""


@pytest.mark.long
def test_ctrl_c_leaves_a_run_that_goes_on(tmp_path: Path) -> None:
    (tmp_path / "stopped_model.py").write_text(STOPPED)
    settings = ("--max-epochs", "5", "--checkpoint-epochs", "1", "--name", "mine")
    stopped = fit("stopped_model", *settings, cwd=tmp_path, PYTHONPATH=str(ROOT))
    output, errors = stopped.stdout, stopped.stderr
    epochs = tmp_path / "results" / "mine" / "epochs.jsonl"
    assert stopped.returncode == 130, errors
    assert "Traceback" not in errors
    assert re.search(r"\nStopped +the run resumes after epoch \d\n", output)
    assert re.search(r"\nResume +.*sweeps fit --resume results/mine\n", output)
    done = fit("--resume", "results/mine", cwd=tmp_path, PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in epochs.read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2, 3, 4, 5]
    assert (tmp_path / "results" / "mine" / "best" / "weights.pt").is_file()
    again = fit("--resume", "results/mine", cwd=tmp_path, PYTHONPATH=str(ROOT))
    assert again.returncode == 2
    assert again.stderr.startswith("error: --resume results/mine: this run has finished")


VARIED = """
import os
from trainables.digits_mlp import METRIC, MODE, Params, build_data
from trainables import digits_mlp

def describe_data(params):
    return f"what is in {os.environ['SWEEPS_DATA_DIR']}"

def build_model(params):
    model = digits_mlp.build_model(params)
    if os.environ.get("STOPS"):
        def stop():
            raise KeyboardInterrupt
        model.on_train_epoch_start = stop
    return model
"""


@pytest.mark.slow
def test_a_run_does_not_go_on_with_other_data_and_says_where_its_own_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "varied.py").write_text(VARIED)
    here: dict[str, Any] = {"cwd": tmp_path, "PYTHONPATH": str(ROOT)}
    done = fit("varied", "--max-epochs", "1", "--name", "mine", "--data-dir", "first", **here, STOPS="1")
    assert done.returncode == 130, done.stderr
    assert "\nStopped    the run starts again: it has no checkpoint yet" in done.stdout
    assert f"sweeps fit --resume results/mine --data-dir {tmp_path / 'first'}\n" in done.stdout
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))
    threads = torch.get_num_threads()
    assert main(["--resume", "results/mine", "--data-dir", "other"]) == 2
    said = capsys.readouterr().err
    assert f"then  what is in {tmp_path / 'first'}\n  now   what is in {tmp_path / 'other'}" in said
    assert main(["--resume", "results/mine", "--data-dir", "first"]) == 0
    torch.set_num_threads(threads)
    sys.modules.pop("varied", None)
