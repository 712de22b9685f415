"""BOHB's model: kernel densities of the good and the bad trials at the highest rung with enough trials.

Falkner et al., 2018, https://arxiv.org/abs/1807.01774, by the authors' own hpbandster, which Ray's
TuneBOHB wraps too (a test compares the models). TuneBOHB loses its results with the driver; here they are
read from the record. Other differences from TuneBOHB:

- quantized ranges keep their steps, and choices their own types (TuneBOHB drops the first with a
  warning, and returns numpy's strings for the second);
- a hyperparameter never collapses to one value: hpbandster's least bandwidth, 0.001 of the range, can't
  leave a whole number on which all good trials agree by chance, so here each hyperparameter's bandwidth
  reaches its neighbours;
- a choice that no good trial has does not count as a perfect one (statsmodels counts the choices in the
  data, and divides by one less: automl/HpBandSter#100).
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from optuna.trial import FixedTrial

from sweeps.common.yaml_values import ParamValue
from sweeps.record.record import Record
from sweeps.search.search_method import MODEL_ATTEMPTS, SearchMethod
from sweeps.space.domain import Domain
from sweeps.space.flat import FlatSpace, seeded_globals
from sweeps.space.point import Point

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

Array = npt.NDArray[np.float64]


class Searcher(SearchMethod):
    """Proposes what hpbandster's model proposes."""

    TAKES = frozenset({"finite", "continuous"})
    SCHEDULERS = ("bohb",)
    PACKAGES = ("hpbandster", "ConfigSpace", "statsmodels", "scipy")

    def propose(self, number: int) -> Iterator[Point]:
        assert isinstance(self.space, FlatSpace), "the plan refuses other spaces by TAKES"
        translation = Translation(self.space.domains)
        if (fidelity := self.known.fidelity(translation.enough)) is not None:
            seed, results = self.model_seed(number) // 2, results_at(self.record, fidelity)
            for proposed in _model_points(translation, results, fidelity, seed):
                yield self.space.suggest(FixedTrial(proposed))
        yield from self.random_points(number)


def results_at(record: Record, fidelity: int) -> list[tuple[Mapping[str, ParamValue], float]]:
    """Params and loss of the trials that reached an epoch, those of earlier sweeps included, and of those
    that diverged or are infeasible (loss: infinite)."""
    sign, earlier = -record.objective.sign, record.earlier.trials
    scores = record.scores_at(fidelity)
    reached = [(record.trials[number].params, sign * score) for number, score in scores.items()]
    before = [(t.params, sign * t.epochs[fidelity].score) for t in earlier if fidelity in t.epochs]
    worst = ("diverged", "infeasible")
    bad = [(t.params, math.inf) for t in (*earlier, *record.searched) if t.status in worst]
    return [*before, *reached, *bad]


@dataclass(frozen=True)
class Translation:
    """A space for ConfigSpace: ranges, and choices by their position."""

    domains: Mapping[str, Domain]

    @cached_property
    def varying(self) -> list[str]:
        """Hyperparameters with more than one value, which the model has."""
        return [name for name, domain in self.domains.items() if domain.size() > 1]

    @property
    def enough(self) -> int:
        """Trials that the model needs: more good ones than hyperparameters, and as many bad."""
        return 2 * (len(self.varying) + 1)

    def least_bandwidth(self, name: str) -> float:
        """In units of the range; of a choice, the share of proposals with any instead of a good trial's."""
        if self.domains[name].choices is not None:
            return 0.1
        # Proposals spread three bandwidths (`bandwidth_factor`): a third of a step reaches the next value.
        return max(0.01, 1 / (3 * max(1, self.domains[name].size() - 1)))

    def space(self, seed: int) -> ConfigurationSpace:
        """A new ConfigSpace, for one proposal: it holds the state of its random generator."""
        import ConfigSpace as cs

        space = cs.ConfigurationSpace(seed=seed)
        for name in self.varying:
            choices, found = self.domains[name].choices, self.domains[name].range
            if found is None:
                space.add(cs.CategoricalHyperparameter(name, list(range(len(choices or [])))))
                continue
            kind = cs.UniformIntegerHyperparameter if found.is_whole else cs.UniformFloatHyperparameter
            space.add(kind(name, found.low, found.high, log=found.is_log))
        return space

    def to_model(self, params: Mapping[str, ParamValue]) -> dict[str, Any] | None:
        """A trial's params; None when they are not of this space, which was changed with --force."""
        found: dict[str, Any] = {}
        for name in self.varying:
            value, choices, range_ = params.get(name), self.domains[name].choices, self.domains[name].range
            if choices is not None and value in choices:
                found[name] = choices.index(value)
            elif range_ and isinstance(value, int | float) and range_.low <= value <= range_.high:
                found[name] = value
            else:
                return None
        return found

    def from_model(self, proposed: Mapping[str, Any]) -> dict[str, Any]:
        """A trial's params, with choices and steps."""
        found = {}
        for name, domain in self.domains.items():
            if name not in self.varying:
                found[name] = (domain.values() or [])[0]
            elif domain.choices is not None:
                found[name] = domain.choices[int(proposed[name])]
            elif domain.range is not None:
                found[name] = domain.range.nearest(proposed[name])
        return found


class Density:
    """A product of kernels, as statsmodels' KDEMultivariate: Gaussian, and Aitchison-Aitken for choices.

    Args:
        data: [trials, hyperparameters], ranges as 0 to 1 and choices as their position.
        bandwidths: [hyperparameters]; of a choice, the probability of all others together.
        levels: [hyperparameters], number of choices; 0 of a range.
    """

    def __init__(self, data: Array, bandwidths: Array, levels: Array) -> None:
        self.data = data
        most = np.where(levels > 0, (levels - 1) / np.maximum(levels, 1), np.inf)
        self.bw = np.minimum(bandwidths, most)  # at the most, all choices are equally likely
        self._levels = levels

    def pdf(self, point: Sequence[float]) -> float:
        gaps, widths = self.data - np.asarray(point), self.bw
        gaussian = np.exp(-((gaps / widths) ** 2) / 2) / (math.sqrt(2 * math.pi) * widths)
        others = widths / np.maximum(self._levels - 1, 1)
        choice = np.where(gaps == 0, 1 - widths, others)
        return float(np.where(self._levels > 0, choice, gaussian).prod(axis=1).mean())


def _model_points(
    translation: Translation, results: list[tuple[Mapping[str, ParamValue], float]], fidelity: int, seed: int
) -> Iterator[dict[str, Any]]:
    """Candidates, best first, from hpbandster's own generator."""
    generator = None
    for attempt in range(MODEL_ATTEMPTS):
        with warnings.catch_warnings(), seeded_globals(seed + attempt):
            warnings.simplefilter("ignore")  # hpbandster uses ConfigSpace by its old names
            generator = generator or model(translation, results, fidelity, seed)
            if not generator.kde_models:
                return
            proposed, _ = generator.get_config(fidelity)
        yield translation.from_model(proposed)


def model(
    translation: Translation, results: list[tuple[Mapping[str, ParamValue], float]], fidelity: int, seed: int
) -> Any:
    """hpbandster's generator with the results of one fidelity."""
    from hpbandster.optimizers.config_generators.bohb import BOHB

    logging.getLogger("hpbandster").setLevel(logging.CRITICAL)  # it logs each random proposal
    generator = BOHB(translation.space(seed))
    known = [(point, loss) for params, loss in results if (point := translation.to_model(params)) is not None]
    for number, (point, loss) in enumerate(known, start=1):
        job = {"result": {"loss": loss}, "kwargs": {"budget": fidelity, "config": point}, "exception": None}
        generator.new_result(SimpleNamespace(**job), update_model=number == len(known))
    floors = [translation.least_bandwidth(name) for name in generator.configspace]  # which sorts them
    for kind, found in generator.kde_models.get(fidelity, {}).items():
        bandwidths = np.maximum(found.bw, floors)
        generator.kde_models[fidelity][kind] = Density(found.data, bandwidths, generator.vartypes)
    return generator
