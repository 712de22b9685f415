"""The site is built, and a dead link ends the build."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT
from tests.docs import examples
from tests.docs.pages import BY_NAME, PAGES

IMAGE_MOST_BYTES = 200_000


def built(root: Path) -> subprocess.CompletedProcess[str]:
    """`mkdocs build --strict` in a folder."""
    pytest.importorskip("material", reason="MkDocs Material is not installed (make docs)")
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict"],
        cwd=root,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A copy of the docs, without what the program has to make for them."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    (tmp_path / "docs" / "hooks.py").write_text("")
    return tmp_path


def test_the_site_is_built(sources: Path) -> None:
    done = built(sources)
    assert done.returncode == 0, done.stderr
    pages = {page.path.stem for page in PAGES} - {"README"}
    assert {file.stem for file in (sources / "site").glob("*.html")} >= pages
    assert (sources / "site" / "search" / "search_index.js").is_file()  # for a page that is opened as a file
    found = json.loads((sources / "site" / "search" / "search_index.json").read_text())["docs"]
    last = {part["location"].partition(".")[0] for part in found if part.get("boost", 1) < 1}
    assert last == {"architecture", "benchmarks", "measurements"}
    fetched = {
        address
        for file in (sources / "site").rglob("*.html")
        for address in re.findall(
            r"""<(?:script|img|iframe)[^>]*src=["']?(?:https?:)?//[^"'> ]+""", file.read_text()
        )
    }
    assert fetched == set()


@pytest.mark.parametrize(
    "link",
    [
        "[a](nowhere.md)",
        "[a](search.md#nowhere)",
        "[a](#nowhere)",
        "![a](images/nowhere.png)",
        "[a](/data.md)",
    ],
)
def test_a_dead_link_ends_the_build(sources: Path, link: str) -> None:
    page = sources / "docs" / "concepts.md"
    page.write_text(f"{page.read_text()}\n{link}\n")
    done = built(sources)
    assert done.returncode != 0
    assert "concepts.md" in done.stderr


def test_a_page_that_nothing_leads_to_ends_the_build(sources: Path) -> None:
    (sources / "docs" / "lost.md").write_text("# Lost\n")
    assert "lost.md" in built(sources).stderr


def test_no_font_is_fetched_from_a_network() -> None:
    assert yaml.safe_load((ROOT / "mkdocs.yml").read_text())["theme"]["font"] is False


def test_a_page_gets_the_help_of_its_command() -> None:
    made = examples.hooks().on_page_markdown("before\n\n<!-- help: results -->\n\nafter")
    assert "--json" in made
    assert made.startswith("before")
    assert "<!--" not in made


def test_a_flag_is_never_broken_into_two_lines() -> None:
    made = examples.hooks().on_page_content("a-b <code>sweeps run --max-epochs 9</code>")
    assert made == 'a-b <code>sweeps run <span class="whole">--max-epochs</span> 9</code>'


def test_the_home_page_has_the_model_of_the_readme() -> None:
    made = examples.hooks().on_page_markdown(BY_NAME["index"].text)
    assert f"```python\n{BY_NAME['README'].blocks('python')[0]}```" in made


def test_the_picture_has_every_room() -> None:
    hooks = examples.hooks()
    rooms = [room for layer in hooks.layers() for room in layer]
    assert {
        path.name for path in (ROOT / "sweeps").iterdir() if path.is_dir() and path.name[0] not in "_."
    } <= {
        *rooms,
        "template",  # of `sweeps init`: files, no room
    }
    assert all(f">{room}</text>" in hooks.rooms_picture() for room in rooms)
    assert all(f"| `{room}` |" in hooks.rooms_table() for room in rooms)


def test_images_are_small() -> None:
    images = [file for file in (ROOT / "docs" / "images").rglob("*.*") if not file.is_symlink()]
    assert images
    assert [file.name for file in images if not 1_000 < file.stat().st_size <= IMAGE_MOST_BYTES] == []
