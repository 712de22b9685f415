"""The code of a project: what its plug-ins import of it is found, sent, and noticed when it changes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps import sweep
from sweeps.common.errors import UserError
from sweeps.config import cli
from sweeps.config.sweep_config import SweepConfig
from sweeps.kinds import registry, source_files
from sweeps.plan.build import make_plan
from sweeps.plan.fingerprint import changes, identity
from sweeps.plan.plan import Plan
from tests.conftest import ROOT
from tests.support import project

USED = {
    *("my_project/__init__.py", "my_project/model.py", "my_project/_parts.py"),
    *("my_layers.py", "my_tools/tool.py"),
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project's folder, as if the command were typed there."""
    monkeypatch.chdir(project.write(tmp_path))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0].startswith("my_")]:
        del sys.modules[name]


def plan_of(home: Path) -> Plan:
    return make_plan(
        SweepConfig.from_settings(
            trainable="my_project.model",
            search_space="my_project.space",
            searcher="my_project.search",
            scheduler="my_project.prune",
            results_dir=str(home),
            gpus_per_trial=0,
            min_free_gb=0.0,
        )
    )


def test_what_a_plug_in_imports_of_its_project_is_found(home: Path) -> None:
    found = source_files.files(registry.find("my_project.model").sources())
    assert found.keys() == USED
    assert all(path == home / name for name, path in found.items())


@pytest.mark.parametrize("name", [*sorted(USED), "my_project/search.py", "my_project/_drawing.py"])
def test_a_change_anywhere_in_the_project_is_named(name: str, home: Path) -> None:
    before = identity(plan_of(home))
    assert changes(before, identity(plan_of(home))) == []
    with (home / name).open("a") as file:
        file.write("# changed\n")
    assert changes(before, identity(plan_of(home))) == [f"{name}: its code"]


def test_packages_and_single_files_are_sent_theirs_before_ours(home: Path) -> None:
    sent = source_files.to_send(registry.find("my_project.model").sources())
    theirs = [home / name for name in ("my_layers.py", "my_project", "my_tools")]
    assert sent == [*theirs, ROOT / "sweeps"]


def test_of_this_program_a_trainable_is_sent_with_its_package() -> None:
    sent = source_files.to_send(registry.find("digits_mlp").sources())
    assert sent == [ROOT / package for package in ("trainables", "sweeps")]


def test_what_is_installed_is_neither_sent_nor_looked_through(home: Path) -> None:
    (home / "my_project-1.0.dist-info").mkdir()
    sources = registry.find("my_project.model").sources()
    assert source_files.files(sources).keys() == {name for name in USED if name.startswith("my_project/")}
    assert source_files.to_send(sources) == [ROOT / "sweeps"]


def test_a_package_that_is_a_plug_in_has_its_root_above_it(home: Path) -> None:
    text = (home / "my_project" / "model.py").read_text().replace("from . import", "from .. import")
    (home / "my_project" / "nets").mkdir()
    (home / "my_project" / "nets" / "__init__.py").write_text(text)
    found = source_files.files(registry.find("my_project.nets").sources())
    assert found.keys() == USED - {"my_project/model.py"} | {"my_project/nets/__init__.py"}


def test_an_import_beyond_the_top_is_no_hindrance(home: Path) -> None:
    with (home / "my_layers.py").open("a") as file:
        file.write("def late():\n    from ... import nothing\n")
    assert source_files.files(registry.find("my_project.model").sources()).keys() == USED


def test_a_package_full_of_data_is_refused_with_its_largest_file(home: Path) -> None:
    data = home / "elsewhere"
    data.mkdir()
    with (data / "images.npy").open("wb") as file:
        file.truncate(source_files.MOST_BYTES)
    (home / "my_project" / "data").symlink_to(data)  # Ray would follow it
    sources = registry.find("my_project.model").sources()
    expected = (
        rf"--address: {home}/my_project is sent .* larger than 100 MB "
        rf"\(largest file: {home}/my_project/data/images.npy, 100 MB\). Move data out"
    )
    with pytest.raises(UserError, match=expected):
        source_files.to_send(sources)


def test_a_ring_of_links_has_an_end(home: Path) -> None:
    (home / "my_project" / "again").symlink_to(home / "my_project")
    (home / "my_project" / "nowhere").symlink_to(home / "nowhere")
    assert home / "my_project" in source_files.to_send(registry.find("my_project.model").sources())


def test_a_mistake_in_what_is_to_be_sent_is_seen_without_a_cluster(home: Path) -> None:
    with (home / "my_project" / "weights.bin").open("wb") as file:
        file.truncate(source_files.MOST_BYTES + 1)
    plan = make_plan(cli.parse(["--dry-run", "--address", "127.0.0.1:1", *project.RUN]))
    with pytest.raises(UserError, match=r"my_project/weights\.bin, 100 MB\)\. Move data out of the package"):
        sweep.run(plan, None)
    assert not (home / "results").exists()


def test_the_code_that_trains_is_not_that_of_the_commands() -> None:
    """Else a sweep could not be resumed after a change of its report."""
    rooms = {name.split("/")[1] for name in source_files.files_of_training()}
    assert {"training", "common"} <= rooms
    assert not rooms & {"execution", "plan", "python_api", "analysis", "run.py"}
