"""The actor that divides the places: whom it forgets, and what it is told anew."""

from __future__ import annotations

import dataclasses
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from sweeps.config.sweep_config import SweepConfig
from sweeps.ray_cluster import nodes
from sweeps.ray_cluster.nodes import Node
from sweeps.ray_cluster.places import place_claims, place_divider
from sweeps.ray_cluster.places.place_claims import NO_OTHER, PlaceClaims
from sweeps.ray_cluster.places.place_divider import CLAIM_EVERY_S, SILENT_AFTER_S, PlaceDivider
from sweeps.ray_cluster.places.place_division import Allotment, Claim
from tests.sweeps.ray_cluster.places.sharing import Played, cpus


class OptionsKept:
    """In place of an actor's class: keeps the options with which it is started."""

    def __init__(self, _: object) -> None:
        self.kept: dict[str, Any] = {}

    def options(self, **given: Any) -> OptionsKept:
        self.kept = given
        return self

    def remote(self) -> OptionsKept:
        return self


def test_the_path_of_its_python_may_have_a_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "living", lambda: [Node("ab" * 28, "pc", "10.0.0.1", {nodes.HEAD: 1.0})])
    monkeypatch.setattr(ray, "remote", OptionsKept)
    monkeypatch.setattr(sys, "executable", "/my env/bin/python")
    starts = place_divider.started(is_on_this_pc=True).kept["runtime_env"]
    assert starts == {"py_executable": "'/my env/bin/python'"}, "Ray hands it to a shell"


class Answers:
    """A divider with a clock and a Ray that answer as they are told to."""

    def __init__(self) -> None:
        self.now, self.ended = 100.0, set[str]()
        self.pcs = {"pc0": cpus(4)}
        self.divider = PlaceDivider(lambda: self.pcs, lambda: self.ended, lambda: self.now)

    def places(self, *names: str) -> list[int | None]:
        """Of each sweep that claims now, a while after the last ones."""
        self.now += CLAIM_EVERY_S
        answers = [
            self.divider.claim(dataclasses.replace(Played(name, cpus(1)).claim, job=name)) for name in names
        ]
        return [None if each.places is None else sum(each.places.values()) for each in answers]


def test_a_sweep_that_is_silent_has_no_places() -> None:
    answers = Answers()
    assert answers.places("a", "b") == [None, 2]
    assert answers.places("a") == [2]
    answers.now += SILENT_AFTER_S
    assert answers.places("a") == [None]


def test_a_sweep_whose_job_has_ended_has_none_a_second_later() -> None:
    answers = Answers()
    answers.places("a", "b")
    answers.ended = {"b"}
    assert answers.places("a") == [None]
    assert [each.claim.name for each in answers.divider.claims()] == ["a"]


def test_a_sweep_that_withdraws_leaves_its_places_at_once() -> None:
    answers = Answers()
    answers.places("a", "b")
    answers.divider.withdraw("b")
    assert answers.divider.claim(Played("a", cpus(1)).claim).places is None


def test_the_first_claim_orders_the_sweeps_and_later_ones_keep_their_turn() -> None:
    answers = Answers()
    answers.places("b")
    answers.places("a", "b")
    known = answers.divider.claims()
    assert [each.claim.name for each in known] == ["b", "a"]
    assert [each.age_s for each in known] == [CLAIM_EVERY_S, 0.0]


def test_one_that_is_started_anew_has_the_order_in_which_the_sweeps_came() -> None:
    answers = Answers()
    for name, age_s in (("second", 10.0), ("first", 20.0)):
        answers.divider.claim(dataclasses.replace(Played(name, cpus(1)).claim, age_s=age_s, is_queued=True))
    known = answers.divider.claims()
    assert [(each.claim.name, each.age_s) for each in known] == [("first", 20.0), ("second", 10.0)]


def test_a_claim_is_renewed_as_long_as_the_sweep_prepares(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its data may take hours, and a sweep that is silent for a minute is forgotten."""
    heard, has_renewed = list[Claim](), threading.Event()

    def hear(claim: Claim) -> Any:
        heard.append(claim)
        if len(heard) == 3:
            has_renewed.set()
        return Allotment({})

    divider = SimpleNamespace(claim=SimpleNamespace(remote=hear))
    monkeypatch.setattr(place_divider, "started", lambda **_: divider)
    calls = {"wait": lambda refs, timeout: (refs, []), "get": lambda ref: ref}
    job = SimpleNamespace(get_job_id=lambda: "1")
    answers_at_once = SimpleNamespace(**calls, exceptions=ray.exceptions, get_runtime_context=lambda: job)
    monkeypatch.setattr(place_claims, "ray", answers_at_once)
    monkeypatch.setattr(place_divider, "CLAIM_EVERY_S", 0.01)
    monkeypatch.setattr(place_claims, "RENEW_EVERY_S", 0.01)
    claims = PlaceClaims(tmp_path, is_on_this_pc=False)
    with claims.announced(SweepConfig(queue=True), cpus(1)):
        assert has_renewed.wait(60)
    assert {(claim.wanted, claim.waits_on) for claim in heard} == {(0, "it prepares its data")}
    assert len({claim.sweep for claim in heard}) == 1
    assert claims.is_due(), "its first real claim waits for an answer"


def test_other_sweeps_are_told_of_once_for_each_change(tmp_path: Path) -> None:
    claims = PlaceClaims(tmp_path, is_on_this_pc=True)
    assert claims.news() == "", "nothing is known yet"
    claims.allotment = Allotment({"pc0": 1}, (), ("a", "b"))
    assert [claims.news(), claims.news()] == ["Shares the PCs with sweeps a and b.", ""]
    claims.withdraw()
    assert claims.news() == "", "nothing is known again"
    claims.allotment = Allotment({}, (), ("a", "b"))
    assert claims.news() == "", "after a pause they are the same"
    claims.allotment = Allotment(None)
    assert [claims.news(), claims.news()] == [NO_OTHER, ""]
