"""Which loggers may be named, and what one that is missing asks for."""

from __future__ import annotations

import dataclasses

import pytest

from sweeps.common.errors import UserError
from sweeps.config import cli, plugins


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["tensorbord"], "--loggers tensorbord: no such logger. Did you mean 'tensorboard'?"),
        (["mlflow", "mlflow"], "--loggers mlflow mlflow: a name is given twice"),
        (["mlflow,tensorboard"], "--loggers mlflow,tensorboard: separate names by spaces"),
    ],
)
def test_a_mistake_is_a_line(names: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        plugins.find("logger", cli.parse(["--loggers", *names]).logger_names[0])


def test_one_that_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeps.loggers.mlflow.NEEDS", ("not_there", "mlflow-skinny"))
    with pytest.raises(UserError, match=r"not_there is not installed: python -m pip install mlflow-skinny"):
        plugins.find("logger", "mlflow")


def test_one_or_several_may_be_named() -> None:
    assert cli.parse(["--loggers", "mlflow"]).logger_names == ["mlflow"]
    both = cli.parse(["--loggers", "tensorboard", "mlflow", "--seed", "1"])
    assert (both.logger_names, both.seed) == (["tensorboard", "mlflow"], 1)
    assert cli.parse([]).logger_names == []
    assert dataclasses.replace(both, loggers=None).logger_names == []
