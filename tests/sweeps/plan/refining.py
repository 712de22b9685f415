"""Spaces of a user, and plans that refine the sweeps in them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from sweeps.config import cli
from sweeps.plan.build import make_plan
from sweeps.plan.plan import Plan
from sweeps.space.flat import FlatSpace
from tests.support.searched import searched

COARSE = (
    "from ray import tune\n"
    'SPACE = {"lr": tune.grid_search([0.001, 0.01, 0.1, 1.0]), "hidden": tune.grid_search([8, 16, 32])}\n'
)


def user_file(name: str, text: str) -> str:
    """A plug-in in the folder where the command is typed, not the one of this name of another test."""
    sys.modules.pop(name, None)
    Path(f"{name}.py").write_text(text)
    return name


def space_file(name: str, hyperparameters: str) -> str:
    """A space of the user's, given as what stands between the braces."""
    return user_file(name, f"from ray import tune\nSPACE = {{{hyperparameters}}}\n")


def refined(*arguments: str) -> Plan:
    return make_plan(cli.parse(["--refine", *arguments]))


def ranges_of(plan: Plan) -> dict[str, Any]:
    """Hyperparameter to first and last value, or to its choices."""
    space = plan.space
    assert isinstance(space, FlatSpace)
    return {
        name: tuple(domain.choices or ()) or (domain.range.low, domain.range.high)
        for name, domain in space.domains.items()
        if domain.choices or domain.range
    }


def coarse_grid(place: Path, score: Any, name: str = "grid") -> None:
    space = user_file("refine_coarse", COARSE)
    searched(place, name, score, search_space=space, searcher="grid", scheduler="none")
