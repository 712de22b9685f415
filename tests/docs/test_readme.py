"""The README's commands run, and its table of flags is the program's.

`python -m tests.docs.test_readme` prints the table.
"""

from __future__ import annotations

import itertools
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sweeps import ladder as sweeps_ladder
from sweeps import prepare, report, results
from sweeps.analysis import comparison, sweep
from sweeps.cluster import clock_skew, environment
from sweeps.config import cli, plugins
from sweeps.config.sweep_config import GROUPS, SweepConfig, docs, flag
from sweeps.pcs import check, diagnosis, down, drain, status
from sweeps.pcs.__main__ import COMMANDS as COMMANDS_FOR_PCS
from sweeps.plan import folder as plan_folder
from sweeps.plan import resume
from sweeps.plan.build import make_plan
from sweeps.plan.describe import describe
from sweeps.space.tune_domains import Form
from sweeps.training import run_settings
from sweeps.training.data import dataset, staging
from tests.conftest import ROOT, skip_without_mlflow
from tests.support.searched import peak, searched

README = (ROOT / "README.md").read_text()
FORMS: dict[str, tuple[Form, ...]] = {
    "choice": ("finite",),
    "uniform": ("continuous",),
    "grid_search": ("grid_search",),
    "sample_from": ("sample_from", "normal"),
    "a function ": ("conditional",),
    "several models": ("several",),
}
"""Rows of the table of domains, by their first word."""
COMMANDS = re.findall(r"^\.venv/bin/python -m sweeps\.run ?(.*?)(?:\s+#.*)?$", README, flags=re.M)


LADDERS = re.findall(r"^\.venv/bin/python -m sweeps\.ladder (.*?)(?:\s+#.*)?$", README, flags=re.M)
PREPARATIONS = re.findall(r"^\.venv/bin/python -m sweeps\.prepare (.*?)(?:\s+#.*)?$", README, flags=re.M)
COMPARISONS = re.findall(r"^\.venv/bin/python -m sweeps\.results (.*?)(?:\s+#.*)?$", README, flags=re.M)
FITS = re.findall(r"^\.venv/bin/python -m sweeps\.fit (.*?)(?:\s+#.*)?$", README, flags=re.M)


REPORTS = re.findall(r"^\.venv/bin/python -m sweeps\.report (.*?)(?:\s+#.*)?$", README, flags=re.M)

PCS = re.findall(r"^\.venv/bin/python -m sweeps\.pcs (\w+) ?(.*?)(?:\s+#.*)?$", README, flags=re.M)


def flags_table() -> str:
    """All flags as the README has them."""
    rows = ["| flag | meaning | default |", "|---|---|---|"]
    for title, names in GROUPS.items():
        rows.append(f"| **{title}** | | |")
        for name in names:
            default = getattr(SweepConfig(), name)
            own = re.search(r" \(default: (.*)\)\.?$", docs()[name])
            meaning = docs()[name].replace(own[0], ".") if own else docs()[name]
            shown = own[1] if own else "" if isinstance(default, bool | dict) else f"`{default}`"
            rows.append(f"| `{flag(name)}` | {'No ' if default is True else ''}{meaning} | {shown} |")
    rows.append("| `--data-dir` | Folder of the raw data; not in sweep.yaml. | `$SWEEPS_DATA_DIR` |")
    rows.append("| `--prepared-dir` | Folder of prepared data; not in sweep.yaml. | `$SWEEPS_PREPARED_DIR` |")
    rows.append(
        "| `--config`, `--print-config` | Read settings from a YAML file; print them all as YAML. | |"
    )
    return "\n".join(rows)


def test_the_table_of_flags_is_that_of_the_program() -> None:
    assert flags_table() in README


def test_it_shows_a_real_screen() -> None:
    assert re.search(r"trials 24/24 ended .*best val_acc 0\.8[4-9]", README)
    assert "<!--" not in README


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 6


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_readme_makes_a_plan(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = shlex.split(command.split(">")[0])
    if "--config" in tokens:
        (tmp_path / "sweep.yaml").write_text("num_trials: 3\n")
        tokens[tokens.index("--config") + 1] = str(tmp_path / "sweep.yaml")
    if {"--help", "--print-config"} & set(tokens):
        with pytest.raises(SystemExit) as end:
            cli.parse(tokens)
        assert not end.value.code
        assert capsys.readouterr().out
        return
    if "mlflow" in tokens:
        skip_without_mlflow()
    if "--resume" in tokens:
        with plan_folder.opened(make_plan(SweepConfig(name="begun", results_dir=str(tmp_path)))):
            pass  # the driver died before the first trial
        tokens[tokens.index("--resume") + 1] = str(tmp_path / "begun")
        plan = make_plan(cli.parse(tokens))
        with plan_folder.opened(plan) as record:
            assert "Going on with begun" in resume.look(plan, record).text
        return
    for place, token in enumerate(tokens):
        if "--refine" in tokens and token.startswith("results/"):
            searched(tmp_path, Path(token).name, peak(0.03), num_trials=8)
            tokens[place] = str(tmp_path / Path(token).name)
    assert "trials" in describe(make_plan(cli.parse([*tokens, "--results-dir", str(tmp_path)])))


def test_the_model_of_the_readme_meets_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = next(
        block for block in re.findall(r"```python\n(.*?)```", README, flags=re.S) if "METRIC" in block
    )
    (tmp_path / "readme_model.py").write_text(code)
    (tmp_path / "readme_project").mkdir()
    (tmp_path / "readme_model.py").rename(tmp_path / "readme_project" / "model.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = plugins.find("trainable", "readme_project.model")
    assert module.Params().lr == 0.01


def test_the_table_of_pairs_is_what_the_searchers_say() -> None:
    said = _said_of_columns("| searcher | ")
    assert sorted(said) == plugins.choices("scheduler")
    for searcher in plugins.choices("searcher"):
        works = {scheduler for scheduler, searchers in said.items() if searcher in searchers}
        assert works == set(plugins.find("searcher", searcher).SCHEDULERS)


def test_the_table_of_domains_is_what_the_searchers_say() -> None:
    said = _said_of_columns("| domain | ")
    assert sorted(said) == plugins.choices("searcher")
    for searcher, words in said.items():
        takes = [form for word in words for form in FORMS[word.split("`")[0] or word]]
        assert sorted(takes) == sorted(plugins.find("searcher", searcher).TAKES)


def _cells(line: str) -> list[str]:
    return [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]


def _said_of_columns(header: str) -> dict[str, list[str]]:
    """Of a table, the name of each column to the rows where it says yes."""
    lines = README.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(header))
    said: dict[str, list[str]] = {name: [] for name in _cells(lines[first])[1:]}
    for line in itertools.takewhile(lambda line: line.startswith("|"), lines[first + 2 :]):
        row, *words = _cells(line)
        for name, word in zip(said, words, strict=True):
            if word == "yes":
                said[name].append(row)
    return said


@pytest.mark.parametrize("line", FITS)
def test_a_command_of_a_single_run_is_one(line: str, tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("params: {lr: 0.02}")
    arguments = shlex.split(line.replace("results/NAME/best", str(tmp_path)))
    if "--help" in arguments:
        with pytest.raises(SystemExit):
            run_settings.parse(arguments)
    else:
        run, _, resumes = run_settings.parse([*arguments, "--results-dir", str(tmp_path)])
        assert not resumes
        assert run.params.get("lr", 0.02) in (0.02, 0.1)


def test_the_readme_shows_single_runs() -> None:
    assert len(FITS) == 9


def blocks_with(word: str) -> str:
    return next(block for block in re.findall(r"```python\n(.*?)```", README, flags=re.S) if word in block)


@pytest.fixture
def clips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The project whose data is prepared, with a raw file for each split; the folder of those."""
    project = tmp_path / "my_project"
    project.mkdir()
    (project / "_clips.py").write_text(blocks_with("def raw_items"))
    rest = 'METRIC, MODE = "val_acc", "max"\n\n\ndef build_model(params): ...\n'
    (project / "clips.py").write_text(blocks_with("PREPARE_PARAMS =") + rest)
    for split in ("train", "val", "test"):
        (tmp_path / "clips" / split).mkdir(parents=True)
        frames = np.random.default_rng(0).integers(0, 256, (100, 96, 96, 3), dtype=np.uint8)
        np.savez(tmp_path / "clips" / split / "a.npz", frames=frames, label=1)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SWEEPS_DATA_DIR", str(tmp_path / "clips"))
    monkeypatch.setenv("SWEEPS_PREPARED_DIR", str(tmp_path / "prepared"))
    yield tmp_path / "clips"
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_project"]:
        del sys.modules[name]


@pytest.mark.parametrize("line", PREPARATIONS)
def test_a_command_that_prepares_is_one(line: str, clips: Path, tmp_path: Path) -> None:
    (tmp_path / "params.yaml").write_text("params: {lr: 0.02, pixels: 32}")
    asked = prepare.parse(shlex.split(line.replace("results/NAME/best", str(tmp_path))))
    assert asked.hyperparameters.get("pixels", 64) in (32, 64)
    data_set = dataset.look(asked.trainable, asked.module, asked.hyperparameters)
    assert [item.split for item in data_set.items] == ["train", "val", "test"]


def test_the_functions_of_the_readme_give_rows(clips: Path) -> None:
    asked = prepare.parse(["my_project.clips", "--pixels", "64"])
    item = next(iter(asked.module.raw_items(None)["train"]))
    blocks = list(asked.module.prepare(item, asked.module.Params(**asked.hyperparameters)))
    assert [(block["image"].shape, block["label"].shape) for block in blocks] == [
        ((64, 64, 64, 3), (64,)),
        ((36, 64, 64, 3), (36,)),
    ]
    assert len(list(staging.encoded(blocks))) == 2


def test_the_readme_shows_preparations() -> None:
    assert len(PREPARATIONS) == 4


@pytest.mark.parametrize(("name", "words"), PCS)
def test_a_command_for_pcs_is_one(name: str, words: str, tmp_path: Path) -> None:
    arguments = shlex.split(words)
    if name == "status":
        searched(tmp_path, "NAME", peak(0.03), num_trials=1)
        address, shown = status.parse([word.replace("results", str(tmp_path)) for word in arguments])
        assert (address, shown) == ("auto", tmp_path / "NAME")
    elif name == "drain":
        assert drain.parse(arguments) == (None, "auto", drain.TIMEOUT_S)
    elif name == "back":
        assert not arguments
    else:
        file = check.parse(arguments)[0] if name == "check" else down.parse(arguments)
        assert len(file.pcs) == 4


def test_the_readme_shows_commands_for_pcs() -> None:
    assert {name for name, _ in PCS} == set(COMMANDS_FOR_PCS)


def test_the_readme_says_how_long_a_drain_waits() -> None:
    assert f"`--timeout-s` ({drain.TIMEOUT_S:g})" in README
    assert f"has not within {drain.GRACE_S:g} s behind the deadline" in README


def test_the_readme_shows_what_the_check_prints() -> None:
    """The header; PCs are the reader's own."""
    assert re.search(f"^{' +'.join(['pc', *check.PARTS[:-1]])}$", README, flags=re.M)


def test_the_readme_says_what_is_compared_and_how_much_is_needed() -> None:
    names = {
        "ray": "Ray",
        "torch": "PyTorch",
        "lightning": "Lightning",
        "optuna": "Optuna",
        "pyarrow": "PyArrow",
    }
    chapter = README[README.index("## Your PCs") :]
    assert all(names.get(name, name).lower() in chapter.lower() for name in environment.PACKAGES)
    assert f"under {diagnosis.MIN_DISK_GB} GB of disk or {diagnosis.MIN_MEMORY_GB} GB of memory" in chapter
    assert f"a clock that is {clock_skew.MAX_SKEW_S:g} s off" in chapter


if __name__ == "__main__":
    print(flags_table())


@pytest.mark.parametrize("line", REPORTS)
def test_a_command_that_writes_a_report_is_one(line: str) -> None:
    folder, output = report.parse(shlex.split(line))
    assert folder == Path("results/NAME")
    assert (output is not None) == ("--output" in line)


def test_the_readme_shows_reports() -> None:
    assert len(REPORTS) == 2


@pytest.mark.parametrize("line", LADDERS)
def test_a_command_of_a_ladder_is_one(line: str) -> None:
    assert sweeps_ladder.parse(shlex.split(line)).trainable in line


def test_the_readme_shows_ladders() -> None:
    assert len(LADDERS) == 2


@pytest.mark.parametrize("line", COMPARISONS)
def test_a_command_that_compares_sweeps_is_one(line: str) -> None:
    folders, _ = results.parse(shlex.split(line))
    assert folders == [Path("results/*")]  # which the shell makes folders of


def test_the_readme_compares_sweeps() -> None:
    assert len(COMPARISONS) == 1


def test_the_readme_shows_what_the_command_prints(tmp_path: Path) -> None:
    """The header; sweeps are the reader's own."""
    with plan_folder.opened(make_plan(SweepConfig(name="a", results_dir=str(tmp_path)))):
        pass
    header = comparison.printed(sweep.compare([tmp_path / "a"]), None).splitlines()[0].split()
    assert len(header) == 7
    assert re.search(f"^{' +'.join(header)}$", README, flags=re.M)
