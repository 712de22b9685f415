"""The commands of the docs do what they are to, typed by a shell in a reader's folder, page by page.

Those that this PC can't run are listed, each with the reason.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.docs import examples
from tests.docs.pages import COMMANDS, PAGES, Page

OTHER_PCS = "needs other PCs: tests/cluster/ and tests/deploy/ have some"
SERVER = "needs a server: tests/sweeps/storage/ starts one"
SLURM = "needs Slurm: make test-slurm has one"
CONTAINER = "needs an engine of containers, and builds for many minutes"
CHANGES_PC = "changes this PC or its environment, by what the network has"
IS_MAKE = "sets up the environment in which this test runs, then runs what other tests run"
FACES = "needs the packages and clips of `make faces`: tests/trainables/ has them"
EXTRA = "needs the extras mlflow and wandb: tests/sweeps/loggers/ has them"
NETWORK = "sends mail, or asks a server in the internet"
WAITS = "shows pages until Ctrl-C: tests/sweeps/test_dashboard.py ends it"
LONG = "trains for many minutes: tests/docs/test_commands.py makes its plan"
LIVE = "steers a sweep that runs: tests/end_to_end/test_steering.py has one"
NOT_RUN = {
    **dict.fromkeys(
        ("sudo apt-get", "apt-get", "pip install", "source", ".venv/bin/python -m pip"), CHANGES_PC
    ),
    **dict.fromkeys(("test -e ~/.ssh", "for pc in", "ssh", "ssh-copy-id", "done", "rsync"), OTHER_PCS),
    **dict.fromkeys((".venv/bin/ray", "ray job", "sweeps pcs", "--address", "--submit"), OTHER_PCS),
    **dict.fromkeys(("sftp://", "s3://", "/mnt/shared"), SERVER),
    **dict.fromkeys(("sbatch", "squeue", "tail -f"), SLURM),
    **dict.fromkeys(("podman", "docker"), CONTAINER),
    **dict.fromkeys(("make sweep", "make test", "make test-slurm"), IS_MAKE),
    **dict.fromkeys(("make faces", "sweeps fit faces", "sweeps ladder faces"), FACES),
    "--loggers mlflow": EXTRA,
    **dict.fromkeys(("mail -s", "curl", "export SLACK_WEBHOOK", "export DISCORD_WEBHOOK"), NETWORK),
    **dict.fromkeys((".venv/bin/jupyter", "sweeps dashboard", "--dashboard", "optuna-dashboard"), WAITS),
    **dict.fromkeys(("--epoch-steps", "--name night"), LONG),
    "sweeps control": LIVE,
}
"""Words of commands that are not run here, each with the reason."""
NEEDED = {
    **{
        " -c config.yaml": "jsonargparse",
        "--hydra ": "hydra",
        "python train.py -m": "hydra",
        "fine_tune.py": "transformers",
    },
    **{f"digits_{name}.py": name for name in ("keras", "xgboost", "lightgbm")},
}
"""Words of commands, and the packages that they need."""
MODEL = """
from net_project.data import Digits
from net_project.model import Net


def build_model(params):
    return Net(params.lr)


def build_data(params):
    return Digits(params.batch_size)
"""
"""In place of the functions of my_project.cnn, which the docs leave to the reader."""
SWEEP = "sweeps run --trainable fashion_cnn --num-trials 3 --max-epochs 3 --name NAME"
BEFORE = {
    "prepare my_project.clips": "export SWEEPS_DATA_DIR=$PWD/clips",
    "my_project.clips --params": "mkdir -p results/NAME/best; "
    "echo 'params: {pixels: 32}' > results/NAME/best/params.yaml",
    "python train.py --lr": """echo 'print("val_acc=0.5")' > train.py""",
    "--constraint": "sed -i 's/rows: int = 60$/rows: int = 3_000/' trainables/fashion_cnn.py",
    "results/NAME": f"test -e results/NAME || {SWEEP}",
    "--refine runs.csv": "sweeps results coarse --csv runs.csv",
    "--refine study.db": f"python -c '{examples.STUDY}'",
    "--resume first": "python first.py",
    "fit --resume results/NAME": "rm -r results/NAME; sweeps fit fashion_cnn --max-epochs 2 --name NAME; "
    "rm -r results/NAME/best",
}
"""What a reader has done before a command with these words."""


def reasons(command: str) -> list[str]:
    """Why a command is not run here: the words of `NOT_RUN` that it has."""
    return [words for words in NOT_RUN if re.search(rf"(?<![\w./-]){re.escape(words)}", command)]


def lacks_package(command: str) -> bool:
    """Whether a command needs a package of `make test-extras` that is not here."""
    return any(words in command and find_spec(package) is None for words, package in NEEDED.items())


def test_each_command_is_run_or_has_its_reason() -> None:
    others = [command for _, command in COMMANDS if command and not reasons(command)]
    assert {command.split()[0] for command in others} == {"sweeps", "torchrun", "cd"}
    named = {words for _, command in COMMANDS for words in reasons(command)}
    assert named == set(NOT_RUN)


@pytest.fixture
def reader(tmp_path: Path) -> Path:
    """A folder with the clone's models, which train on few rows by default, and the files that docs show."""
    for name in ("trainables", "search_spaces"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for file in (tmp_path / "trainables").glob("*.py"):
        file.write_text(file.read_text().replace("rows: int = 6_000", "rows: int = 60"))
    examples.write(tmp_path)
    with (tmp_path / examples.PACKAGE / "cnn.py").open("a") as file:
        file.write(MODEL)
    return tmp_path


def is_run(page: Page) -> bool:
    return any(command and not reasons(command) for command in page.commands)


@pytest.mark.long  # a page is many sweeps, one after another
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in PAGES if is_run(page)])
def test_the_commands_of_a_page_end_well(page: Page, reader: Path) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "SWEEPS_PREPARED_DIR": str(reader / "prepared")}
    for block in page.blocks("bash"):
        lines = ["set -e"]
        for command in Page.commands_of(block):
            if command and not reasons(command) and not lacks_package(command):
                before = [line for words, line in BEFORE.items() if words in command]
                lines += [*before, "set -x", command, "set +x"]
        done = subprocess.run(
            ["bash", "-c", "\n".join(lines)],
            cwd=reader,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout
