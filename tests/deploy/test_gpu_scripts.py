"""The scripts for a GPU machine: what they say without one, and what they refuse."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import torch

from tests.conftest import ROOT


def script(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "deploy" / name), *arguments]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=280
    )


def test_help_says_what_it_does() -> None:
    done = script("gpu-check.sh", "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("Prove the program on this PC's GPU: deploy/gpu-check.sh [--wheels BUNDLE]")


def test_a_flag_that_is_none_is_refused_with_those_that_are() -> None:
    done = script("gpu-check.sh", "--wheel", "bundle")
    assert done.returncode == 2
    assert "--wheel: --wheels BUNDLE, --folder FOLDER, --tests or --bench" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--wheels",), "--wheels: name a file or a folder"),
        (
            ("--wheels", "/no/such.tar.xz", "--folder", "found"),
            "--wheels /no/such.tar.xz: there is no such file",
        ),
        (("--bench", "sharring"), "sharring: there is no such part: train data ladder sharing overhead zero"),
    ],
)
def test_what_is_missing_or_mistyped_is_told_before_anything_is_made(
    arguments: tuple[str, ...], why: str
) -> None:
    done = script("gpu-check.sh", *arguments)
    assert done.returncode == 2
    assert done.stderr == f"error: {why}\n"
    assert done.stdout == ""


def test_a_bundle_needs_the_list_of_what_the_machine_has() -> None:
    done = script("gpu-wheels.sh", "/no/such/file")
    assert done.returncode == 2
    assert "python3 -m pip list --format=freeze > HAVE.txt" in done.stderr


@pytest.mark.long
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_all_is_skipped_with_the_reason(tmp_path: Path) -> None:
    done = script("gpu-check.sh", "--folder", str(tmp_path / "found"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no CUDA GPU" in (tmp_path / "found" / "machine.txt").read_text()
    tests = (tmp_path / "found" / "tests.txt").read_text()
    assert "needs a CUDA GPU" in tests
    assert " passed" not in tests
    assert "skipped" in (tmp_path / "found" / "benchmarks.txt").read_text()
