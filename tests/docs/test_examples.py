"""The code of the docs runs as it is shown, and their tables agree with the program."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from sweeps import prepare
from sweeps.analysis import comparison, sweep
from sweeps.config import cli, plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.kinds import registry
from sweeps.pcs import __main__ as flags_for_pcs
from sweeps.pcs import check, drain
from sweeps.plan import folder as plan_folder
from sweeps.plan.build import make_plan
from sweeps.plan.describe import describe
from sweeps.ray_cluster import environment
from sweeps.space.domain import Form
from sweeps.training.data import ray_pipeline
from tests.docs import examples
from tests.docs.pages import BY_NAME

FORMS: dict[str, tuple[Form, ...]] = {
    "choice": ("finite",),
    "uniform": ("continuous",),
    "grid_search": ("grid_search",),
    "sample_from": ("sample_from", "normal"),
    "a function ": ("conditional",),
    "several models": ("several",),
}
"""Rows of the table of domains, by their first word."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the docs, the current one."""
    examples.write(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_models_and_spaces_of_the_docs_meet_their_contracts(project: Path) -> None:
    assert registry.find("my_project.cnn").params_class().lr == 0.01
    assert set(plugins.module_of("search_space", "my_project.space").SPACE) == {"lr", "batch_size"}
    assert callable(plugins.module_of("search_space", "my_project.layers").suggest)


def test_the_functions_of_the_docs_prepare_rows(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEPS_DATA_DIR", str(project / "clips"))
    asked = prepare.parse(["my_project.clips", "--pixels", "64"])
    preparation = asked.trainable.preparation
    assert preparation is not None
    item = next(iter(preparation.raw_items(None)["train"]))
    blocks = list(preparation.prepare(item, asked.trainable.params_class(**asked.hyperparameters)))
    assert [(block["image"].shape, block["label"].shape) for block in blocks] == [
        ((64, 64, 64, 3), (64,)),
        ((36, 64, 64, 3), (36,)),
    ]
    assert len(list(ray_pipeline.encode_blocks(blocks))) == 2


def test_the_settings_beside_those_of_another_program_are_a_sweep(project: Path) -> None:
    (settings,) = BY_NAME["coming-from"].blocks("yaml")
    (project / "sweep.yaml").write_text(settings)
    plan = make_plan(cli.parse(["--config", "sweep.yaml"]))
    assert plan.config.num_trials == 50
    assert re.search(r"lr +0.0001 to 0.1, log scale\n +hidden +one of 16, 32, 64", describe(plan))


def test_the_table_of_pairs_is_what_the_searchers_say() -> None:
    said = _said_of_columns("search", "| searcher | ")
    assert sorted(said) == plugins.choices("scheduler")
    for searcher in plugins.choices("searcher"):
        works = {scheduler for scheduler, searchers in said.items() if searcher in searchers}
        assert works == set(plugins.find("searcher", searcher).SCHEDULERS)


def test_the_table_of_domains_is_what_the_searchers_say() -> None:
    said = _said_of_columns("models-and-spaces", "| domain | ")
    assert sorted(said) == plugins.choices("searcher")
    for searcher, words in said.items():
        takes = [form for word in words for form in FORMS[word.split("`")[0] or word]]
        assert sorted(takes) == sorted(plugins.find("searcher", searcher).TAKES)


def _cells(line: str) -> list[str]:
    return [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]


def _said_of_columns(page: str, header: str) -> dict[str, list[str]]:
    """By column of a table, the rows with `yes`."""
    lines = BY_NAME[page].text.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(header))
    said: dict[str, list[str]] = {name: [] for name in _cells(lines[first])[1:]}
    for line in itertools.takewhile(lambda line: line.startswith("|"), lines[first + 2 :]):
        row, *words = _cells(line)
        for name, word in zip(said, words, strict=True):
            if word == "yes":
                said[name].append(row)
    return said


def test_the_docs_show_what_the_check_of_pcs_prints() -> None:
    """The header; PCs are the reader's own."""
    assert re.search(f"^{' +'.join(['pc', *check.PARTS[:-1]])}$", BY_NAME["cluster"].text, flags=re.M)


def test_the_docs_say_how_long_a_drain_waits() -> None:
    assert f"`--timeout-s` ({flags_for_pcs.DRAIN_S:g})" in BY_NAME["cluster"].text
    assert f"has not within {drain.GRACE_S:g} s after the deadline" in BY_NAME["cluster"].text


def test_the_docs_say_what_is_compared_and_how_much_is_needed() -> None:
    names = {
        "ray": "Ray",
        "torch": "PyTorch",
        "lightning": "Lightning",
        "optuna": "Optuna",
        "pyarrow": "PyArrow",
    }
    chapter = BY_NAME["cluster"].text
    assert all(names.get(name, name).lower() in chapter.lower() for name in environment.PACKAGES)
    assert f"under {check.MIN_DISK_GB} GB of disk or {check.MIN_MEMORY_GB} GB of memory" in chapter
    assert f"a clock that is {environment.MAX_SKEW_S:g} s off" in chapter


def test_the_docs_show_what_the_comparison_prints(tmp_path: Path) -> None:
    """The header; sweeps are the reader's own."""
    with plan_folder.opened(
        make_plan(SweepConfig(trainable="digits_mlp", name="a", results_dir=str(tmp_path)))
    ):
        pass
    header = comparison.printed(sweep.compare([tmp_path / "a"]), None).splitlines()[0].split()
    assert len(header) == 7
    assert re.search(f"^{' +'.join(header)}$", BY_NAME["results-and-report"].text, flags=re.M)
