"""The domain of a hyperparameter: a range or choices as in Optuna, or a form that Optuna does not have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from optuna.distributions import BaseDistribution, CategoricalDistribution

from sweeps.space.numeric_range import Range
from sweeps.space.point import Suggests

Form = Literal["grid_search", "sample_from", "normal", "finite", "continuous", "conditional", "several"]
"""What a searcher can or can't take; `finite` is a choice, whole numbers, or a quantized range,
`conditional` a whole space that is defined by `suggest`, `several` those of several models."""
FORM_NAMES = {"normal": "tune.randn", "finite": "a choice", "continuous": "a continuous range"}
"""In messages; the other forms have the name of their function in `ray.tune`."""


@dataclass(frozen=True)
class Domain:
    """The values of a hyperparameter. Made of a `ray.tune` domain once, by `tune_domains.converted`."""

    form: Form
    exactly: str
    """A text; different domains have different texts."""
    tune: Any = field(compare=False, repr=False)
    """The `ray.tune` domain that random values are drawn from."""
    distribution: BaseDistribution | None = None
    """None of a `sample_from` and a normal domain, which Optuna does not have."""
    step: float | None = None
    """Gap between values, on a log scale too, where Optuna has none; 1 of whole numbers."""

    @property
    def choices(self) -> list[Any] | None:
        """The values of a choice or a grid; None of other domains."""
        found = self.distribution
        return list(found.choices) if isinstance(found, CategoricalDistribution) else None

    @property
    def range(self) -> Range | None:
        """None of choices, and of a domain without a distribution."""
        if self.distribution is None or self.choices is not None:
            return None
        return Range.of(self.distribution, self.step)

    def values(self) -> Sequence[Any] | None:
        """All values of a finite domain, in order; None of one that is continuous or a function."""
        return self.choices if self.range is None else self.range.values()

    def size(self) -> float:
        """Number of values; infinite where they can't be listed."""
        if (found := self.range) is None:
            return math.inf if self.choices is None else len(self.choices)
        return math.inf if found.count is None else found.count

    def suggest(self, trial: Suggests, name: str) -> Any:
        """The value that a trial suggests; only of a domain with a distribution."""
        if (range_ := self.range) is None:
            return trial.suggest_categorical(name, self.choices or [])
        found: Any = self.distribution
        ask = trial.suggest_int if range_.is_whole else trial.suggest_float
        return range_.nearest(ask(name, found.low, found.high, step=found.step, log=found.log))

    @property
    def form_name(self) -> str:
        """The form, for messages."""
        return FORM_NAMES.get(self.form, f"tune.{self.form}")

    def __str__(self) -> str:
        if self.choices is not None:
            kind = "grid of" if self.form == "grid_search" else "one of"
            return f"{kind} {', '.join(map(str, self.choices))}"
        return str(self.range or self.form)
