"""Which members of a worker group stay warm for the next trial. Real actors, that train nothing."""

from __future__ import annotations

import time
from typing import Any

import pytest
import ray
from ray.exceptions import RayActorError

from sweeps.trial.member import Answer
from sweeps.trial.members import Members
from sweeps.trial.messages import Failed

pytestmark = pytest.mark.usefixtures("ray_session")
FAILED = Failed(reason="ValueError: no", traceback="")


@ray.remote(num_cpus=0)
class Actor:
    """A member with one answer."""

    def __init__(self, answer: Answer) -> None:
        self._answer, self._trials_left = answer, 0

    def train(self, _trains_on: bool) -> Answer:
        return self._answer

    def leave(self) -> None:
        self._trials_left += 1

    def trials_left(self) -> int:
        return self._trials_left


class Fakes(Members):
    """A group of such a member."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        no_job: Any = None
        super().__init__(no_job, lambda: None)

    def _started(self) -> list[Any]:
        make: Any = Actor
        return [make.remote(self._answer)]


def left(answer: Answer) -> tuple[Any, Any]:
    """The member of a group before it left a trial, and the one after that. Nobody has read the answer."""
    members = Fakes(answer)
    (before,) = members.actors
    members.call("train", True)
    assert ray.wait(members._calls, timeout=60)[0]
    members.leave()
    (after,) = members.actors
    return before, after


def has_ended(actor: Any) -> bool:
    try:
        ray.get(actor.trials_left.remote(), timeout=60)
    except RayActorError:
        return True
    return False


@pytest.mark.parametrize("answer", [Answer(), Answer(failure=FAILED)])
def test_a_member_stays_warm_also_behind_a_failure(answer: Answer) -> None:
    before, after = left(answer)
    assert after == before
    assert ray.get(after.trials_left.remote()) == 1


def test_a_member_whose_gpu_computes_no_more_is_ended_and_another_one_begins() -> None:
    before, after = left(Answer(failure=FAILED, is_broken=True))
    ends_at = time.monotonic() + 60
    while not has_ended(before):  # a call may still be answered before the kill is done
        assert time.monotonic() < ends_at
    assert ray.get(after.trials_left.remote(), timeout=60) == 0
