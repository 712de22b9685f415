"""Mistakes at the command line: exit status 2, a short answer, nothing started, nothing written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from sweeps import fit, ladder, prepare
from sweeps.common.cli.dispatch import status_of
from sweeps.common.formatting import command
from sweeps.run import main
from tests.conftest import ROOT

TOY = ("--no-baseline", "--trainable", "tests.faulty.toy")
DIGITS = ("--trainable", "digits_mlp")
MISTAKES = {
    "no trainable": (["--seed", "1"], "--trainable: this project has several; give one of digits_mlp, faces"),
    "flag": (["--num-trails", "3"], "Did you mean '--num-trials'?"),
    "value": (["--num-trials", "many"], "--num-trials many: must be a whole number"),
    "trainable": (["--trainable", "fasion_cnn"], "Did you mean 'fashion_cnn'?"),
    "own module": (["--trainable", "my_project.cnn"], "no such trainable"),
    "space": ([*DIGITS, "--search-space", "digits_mpl"], "Did you mean 'digits_mlp'?"),
    "searcher": ([*DIGITS, "--searcher", "tpee"], "Did you mean 'tpe'?"),
    "scheduler": ([*DIGITS, "--scheduler", "ahsa"], "Did you mean 'asha'?"),
    "hyperparameter": (
        ["--trainable", "digits_mlp", "--params", "batch_sise=3"],
        "Did you mean 'batch_size'?",
    ),
    "hyperparameter's type": (
        ["--trainable", "digits_mlp", "--params", "batch_size=big"],
        "must be a whole number",
    ),
    "swept and fixed": (["--trainable", "digits_mlp", "--params", "lr=1"], "swept by the space and fixed"),
    "space of another": (
        ["--trainable", "digits_mlp", "--search-space", "fashion_cnn"],
        "weight_decay: no such hyperparameter of Params",
    ),
    "grid of a range": (["--trainable", "digits_mlp", "--searcher", "grid"], "can't take a continuous range"),
    "tpe of a grid": (
        ["--trainable", "fashion_cnn", "--search-space", "fashion_cnn_grid"],
        "can't take tune.grid_search",
    ),
    "no rung": (
        ["--trainable", "digits_mlp", "--grace-epochs", "4", "--max-epochs", "2"],
        "the first rung is after the last epoch",
    ),
    "too many CPUs": (["--trainable", "digits_mlp", "--cpus-per-trial", "9999"], "a trial takes 9,999 CPUs"),
    "seed": (["--seed", "5000000000"], "--seed 5000000000: must be at least 0 and at most 4,294,967,295"),
    "long name": (["--name", "x" * 300], "at most 100 letters"),
    "a file for a folder": (
        ["--trainable", "digits_mlp", "--results-dir", "README.md"],
        "README.md is not a writable folder",
    ),
    "sample_from that raises": (
        [
            "--no-baseline",
            "--trainable",
            "tests.faulty.toy",
            "--search-space",
            "tests.faulty.bad_function",
            "--searcher",
            "random",
        ],
        "slope.*ZeroDivisionError",
    ),
    "folder of the data": (
        ["--trainable", "fashion_cnn", "--data-dir", "/nowhere"],
        "Fashion-MNIST is not in /nowhere .* lacks",
    ),
}


@pytest.fixture(autouse=True)
def mode(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process has imported Ray, and says how it is to be joined."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_before_anything_starts(
    mistake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import re

    import ray

    monkeypatch.setenv("SWEEPS_DATA_DIR", "")
    arguments, answer = MISTAKES[mistake]
    assert main(["--results-dir", str(tmp_path), *arguments]) == 2
    printed = capsys.readouterr()
    assert re.search(answer, printed.err), printed.err
    assert "Traceback" not in printed.err
    assert not ray.is_initialized()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("program", [fit, ladder, prepare])
def test_a_second_trainable_is_answered_with_how_to_train_several(
    program: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(["faces", "digits_mlp"]) == 2
    assert capsys.readouterr().err == (
        "error: digits_mlp: not a flag; this command takes one trainable. "
        f"For several: {command('run', '--trainable', 'NAME', 'NAME')}\n"
    )


def test_a_wrong_type_is_answered_with_the_flag_that_was_typed(capsys: pytest.CaptureFixture[str]) -> None:
    assert fit.main(["digits_mlp", "--lr", "abc", "--hidden", "1.5"]) == 2
    assert capsys.readouterr().err == (
        "error: --lr abc: must be a number\n--hidden 1.5: must be a whole number\n"
    )


def test_a_dry_run_stops_after_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--trainable", "digits_mlp", "--dry-run", "--results-dir", str(tmp_path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "halving: 24 trials to epoch 3, of them the best 8 to epoch 9, 2 to epoch 27" in said
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_exists_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    arguments = ["--trainable", "digits_mlp", "--results-dir", str(tmp_path), "--name", "mine"]
    assert main(arguments) == 2
    assert "exists already; give another name" in capsys.readouterr().err


def test_no_cluster_at_the_address(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "sweeps.run", "--trainable", "digits_mlp"),
            *("--address", "127.0.0.1:1", "--results-dir", str(tmp_path)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2
    assert "--address 127.0.0.1:1: no Ray cluster answers there" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_that_breaks_in_the_users_code_is_no_reader_that_has_gone() -> None:
    def breaks() -> int:
        raise BrokenPipeError("of a loader's process")

    with pytest.raises(BrokenPipeError, match="of a loader's process"):
        status_of(breaks)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from sweeps.run import main\n"
        "try:\n    main(['--help-all'])\n"
        "except SystemExit as end:\n    assert not end.code\n"
        "heavy = {'torch', 'ray', 'lightning', 'optuna', 'numpy', 'pandas'} & sys.modules.keys()\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    for title in ("Search:", "Pruning:", "Resources:", "--max-epochs N", "(default: 27)"):
        assert title in done.stdout
