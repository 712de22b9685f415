"""A package of an extra that is not there: one line says what to type, before anything starts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeps import fit
from sweeps.run import main as run_main
from sweeps.training.config import FitConfig
from sweeps.training.distributed.strategy import Device, choose

ON_CPU = Device(None, True)
GB_11 = Device(11 * 10**9, True)


@pytest.mark.parametrize(
    ("package", "extra", "main", "arguments"),
    [
        ("deepspeed", "deepspeed", run_main, ["--strategy", "deepspeed_stage_2"]),
        ("deepspeed", "deepspeed", fit.main, ["digits_mlp", "--strategy", "deepspeed_stage_3"]),
        ("matplotlib", "plots", fit.main, ["digits_mlp", "--profile"]),
        ("sshfs", "storage", run_main, ["--storage", "sftp://nas/sweeps", "--dry-run"]),
        ("aiohttp_cors", "dashboard", run_main, ["--address", "http://pc:8265", "--submit"]),
    ],
)
def test_a_line_says_what_to_type(
    package: str,
    extra: str,
    main: Callable[[list[str]], int],
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not there
    if main is run_main:
        arguments = ["--trainable", "digits_mlp", *arguments]
    assert main([*arguments, "--results-dir", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert f"{package} is not installed: " in said.err
    assert f"-m pip install 'raysweeps[{extra}]'" in said.err
    assert not list(tmp_path.iterdir())


def test_the_strategy_that_is_chosen_does_without_deepspeed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    several = choose(FitConfig(devices=2), 1_000_000, ON_CPU)
    assert (several.strategy, "deepspeed is not installed" in several.in_words) == ("ddp", True)
    large = choose(FitConfig(), 10**9, GB_11)
    assert (large.strategy, "deepspeed is not installed" in large.in_words) == ("single", True)
    small = choose(FitConfig(), 1_000_000, GB_11)
    assert (small.strategy, "deepspeed" in small.in_words) == ("single", False)
