"""What to do next, as a command."""

from __future__ import annotations

from dataclasses import dataclass

from sweeps.analysis.failure_regions import DeadRegion
from sweeps.analysis.fidelity import Influence
from sweeps.analysis.forecast import Gain, RungCheck
from sweeps.analysis.top_trials import Edge


@dataclass(frozen=True)
class Advice:
    """What to try next, and why."""

    epoch: int
    """At which trials are ranked; 0 where none has a score."""
    judged: int
    """Trials that have a finite score there."""
    widen: tuple[Edge, ...]
    """Hyperparameters whose best values sit at the edge of their range."""
    fix: tuple[tuple[str, Influence], ...]
    """Hyperparameters without influence, and how that was found."""
    cut: tuple[DeadRegion, ...]
    """Where trials fail or diverge, and none is good."""
    rungs: tuple[RungCheck, ...]
    """How well each rung foretold the end."""
    grace_epochs: int | None
    """A later first rung to try; None where there is no reason for one."""
    gain: Gain | None
    """What as many trials again may bring; None where that can't be told."""
    goes_on: bool | None
    """Whether the same space deserves more trials; None where that can't be told."""
    lines: tuple[str, ...]
    """All of it as sentences."""
    command: str
    """What to type next: to go on with a sweep that was stopped, else for one that refines it; "" where there
    is nothing to learn from."""
