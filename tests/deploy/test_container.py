"""`deploy/Containerfile`: its versions are those of the tested set-up, and it copies what a PC gets."""

from __future__ import annotations

import re
import tomllib

import yaml
from packaging.specifiers import SpecifierSet

from tests.conftest import ROOT
from tests.deploy.test_ray_cluster import LOCK

TEXT = (ROOT / "deploy" / "Containerfile").read_text()
ARGUMENTS = dict(re.findall(r"^ARG (\w+)=(\S+)$", TEXT, flags=re.M))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def needed(package: str) -> SpecifierSet:
    """What pyproject.toml takes of a package."""
    found = [re.match(rf"{package}(?:\[.*?\])?([<>=].*)", one) for one in PROJECT["dependencies"]]
    return SpecifierSet(next(one[1] for one in found if one))


def test_its_versions_are_those_of_the_lock_and_the_makefile() -> None:
    stated = dict(re.findall(r"\b(ray) (\d+\.\d+\.\d+)\b", TEXT))
    assert stated == {"ray": LOCK["ray"]}
    assert LOCK["ray"] in needed("ray")
    assert re.findall(r"^TORCH +\?= (\S+)$", (ROOT / "Makefile").read_text(), flags=re.M) == [
        ARGUMENTS["TORCH"]
    ]
    assert ARGUMENTS["TORCH"] in needed("torch")
    assert "requirements.lock" in TEXT
    assert "pip install" not in TEXT, "make installs, by the lock"


def test_its_python_is_one_that_the_project_takes() -> None:
    version = ARGUMENTS["PYTHON"].removeprefix("python")
    assert version in SpecifierSet(PROJECT["requires-python"])


def test_its_base_is_pinned_to_a_version() -> None:
    image, _, tag = ARGUMENTS["BASE"].rpartition(":")
    assert image == "docker.io/nvidia/cuda"
    assert re.fullmatch(r"\d+\.\d+\.\d+-devel-ubuntu24\.04", tag), (
        "24.04 has the Python 3.12 that is asked for"
    )


def test_it_holds_the_packages_that_a_pc_gets_and_no_token() -> None:
    copied = re.findall(r"^COPY (.+) \S+$", TEXT, flags=re.M)
    packages = {name for line in copied for name in line.split()}
    assert all((ROOT / name).exists() for name in packages)
    mounts = yaml.safe_load((ROOT / "ray_cluster.yaml").read_text())["file_mounts"].values()
    assert packages == {name for name in mounts if not name.startswith("~")} - {"deploy"}
    assert "token" not in " ".join(copied)
