"""Which members of a worker group stay warm for the next trial. They are fakes of actors, in this process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import ray

from sweeps.trial.members import Members

pytestmark = pytest.mark.usefixtures("ray_session")
FAILED = {"reason": "ValueError: no", "is_user_error": False}


class Actor:
    """A member, as Ray calls it."""

    def __init__(self, failure: dict[str, Any] | None) -> None:
        self.has_left = False
        self.train = SimpleNamespace(remote=lambda _: ray.put((failure, None)))
        self.leave = SimpleNamespace(remote=self._leave)

    def _leave(self) -> None:
        self.has_left = True


class Fakes(Members):
    """Members that answer in this process, with one failure or none."""

    def __init__(self, failure: dict[str, Any] | None) -> None:
        self._failure = failure
        no_job: Any = None
        super().__init__(no_job, lambda: None)

    def _started(self) -> list[Any]:
        return [Actor(self._failure)]


@pytest.mark.parametrize(
    ("failure", "stays"),
    [(None, True), ({**FAILED, "is_broken": False}, True), ({**FAILED, "is_broken": True}, False)],
)
def test_a_member_whose_gpu_computes_no_more_is_replaced_also_where_nobody_read_its_answer(
    failure: dict[str, Any] | None, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[Any] = []
    monkeypatch.setattr(ray, "kill", killed.append)
    monkeypatch.setattr(ray.util, "get_current_placement_group", lambda: None)
    monkeypatch.setattr(ray.util, "placement_group_table", lambda _: {})
    members = Fakes(failure)
    (before,) = members.actors
    members.call("train", True)
    members.leave()
    assert (members.actors == [before]) is before.has_left is stays
    assert killed == ([] if stays else [before])
