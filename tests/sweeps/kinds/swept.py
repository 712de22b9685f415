"""A project that is configured by files, planned and trained as a sweep does it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from sweeps.common import project
from sweeps.config import cli
from sweeps.config import plugins as config_plugins
from sweeps.kinds import registry
from sweeps.plan.build import make_plan
from sweeps.plan.plan import Plan
from sweeps.training.config import FitConfig
from sweeps.training.runs.fit_loop import Fit
from tests.support.trainables import run_through


def enter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Type commands in the folder of a project, whose modules are not those of an earlier test."""
    monkeypatch.chdir(folder)
    of_projects = ("net_project", "pytorch_lightning")
    for name in [name for name in sys.modules if name.partition(".")[0] in of_projects]:
        del sys.modules[name]
    project.use()


def planned(*arguments: str) -> Plan:
    return make_plan(config_plugins.named(cli.parse(arguments)))


def trained(plan: Plan, **values: Any) -> Fit:
    """Two epochs in what another process makes of the trainable."""
    trainable = registry.load(plan.models[0].trainable.description)
    assert trainable is not plan.models[0].trainable
    params = trainable.params_class(**{**plan.models[0].space.fixed, **values})
    fit = Fit(trainable, params, FitConfig(max_epochs=2, metric="val_acc", mode="max", seed=5))
    run_through(fit)
    return fit
