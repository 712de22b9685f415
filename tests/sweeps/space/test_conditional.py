"""A space of a function `suggest(trial)`: tried out before anything runs, drawn from, and modelled."""

from __future__ import annotations

import itertools
import math
import random
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from optuna.trial import FixedTrial
from ray import cloudpickle
from ray.tune.search import Searcher

from sweeps.common.errors import UserError
from sweeps.config import plugins
from sweeps.config.sweep_config import SweepConfig
from sweeps.record.record import Record
from sweeps.space.conditional import SAMPLES, check
from sweeps.space.optuna_space import optuna_point
from sweeps.space.point import InvalidPoint, Space
from tests.conftest import optuna_trials, propose
from tests.sweeps.space.layered import Params, checked, layered

TAKING = [
    name for name in plugins.choices("searcher") if "conditional" in plugins.find("searcher", name).TAKES
]


def faults(suggest: Callable[[Any], object], **fixed: Any) -> list[str]:
    with pytest.raises(UserError) as raised:
        checked(suggest, **fixed)
    return str(raised.value).splitlines()


def test_a_draw_has_the_hyperparameters_that_belong_together_in_their_ranges() -> None:
    space = checked()
    points = [space.draw((1, number)).params for number in range(100)]
    assert {point["layers"] for point in points} == {1, 2, 3}
    for point in points:
        widths = [f"width_{number}" for number in range(2, int(point["layers"]) + 1)]
        assert list(point) == ["lr", "layers", *widths]
        for before, after in itertools.pairwise([4, *(int(point[name]) for name in widths)]):
            assert after in range(before, 2 * before + 1)


def test_the_same_seeds_draw_the_same_point_and_others_another() -> None:
    space = checked()
    assert space.draw((7, 3, 0)) == space.draw((7, 3, 0))
    assert len({space.draw(seeds).key for seeds in [(7, 3, 0), (8, 3, 0), (7, 4, 0), (7, 3, 1)]}) == 4


def test_a_point_has_what_stands_still_and_not_the_hyperparameters_of_other_points() -> None:
    space = checked(rows=50)
    point = next(point for n in range(99) if (point := space.draw((0, n))).params["layers"] == 2)
    assert point.trainable == "net"
    assert point.fixed == {"width_4": 0, "kind": "relu", "rows": 50}, "nor width_3, which others have"
    assert Params(**point.fixed, **point.params).rows == 50


def test_a_hyperparameter_that_no_sample_had_stands_still_until_a_point_has_it() -> None:
    def suggest(trial: Any) -> None:
        if trial.suggest_float("lr", 0.0, 1.0) > 0.9999:
            trial.suggest_int("width_4", 1, 9)

    space = checked(suggest)
    assert space.fixed["width_4"] == 0
    assert space.draw((0, 0)).fixed["width_4"] == 0
    rare = space.suggest(FixedTrial({"lr": 0.99999, "width_4": 3}))
    assert (rare.params["width_4"], "width_4" in rare.fixed) == (3, False)


def test_values_have_the_types_of_params() -> None:
    point = checked(lambda trial: [trial.suggest_int("lr", 1, 5), None][1]).draw((0, 0))
    assert type(point.params["lr"]) is float


def test_the_plan_has_the_range_that_was_seen_and_how_often() -> None:
    words = checked().describe()
    assert words["lr"] == "0.001 to 1, log scale"
    assert words["layers"] == "1 to 3"
    assert words["width_2"] == "4 to 8 in steps of 2, in 70 % of points"
    assert words["width_3"].endswith(", depending on other hyperparameters, in 40 % of points")


counter = itertools.count()


def misspelt(trial: Any) -> None:
    trial.suggest_float("lrr", 0.0, 1.0)
    trial.suggest_int("widht_2", 1, 2)


def of_a_wrong_type(trial: Any) -> None:
    trial.suggest_float("layers", 1.0, 3.0)


def none_as_a_choice(trial: Any) -> None:
    trial.suggest_categorical("kind", [None])


def refused_by_params(trial: Any) -> None:
    trial.suggest_int("width_2", 12, 14)


def of_nothing(trial: Any) -> None: ...


def with_changing_choices(trial: Any) -> None:
    trial.suggest_categorical("kind", ["relu", "gelu"][: trial.suggest_int("layers", 1, 2)])


def of_a_changing_kind(trial: Any) -> None:
    if trial.suggest_int("layers", 1, 2) == 1:
        trial.suggest_float("lr", 0.1, 1.0)
    else:
        trial.suggest_float("lr", 0.1, 1.0, log=True)


def by_chance(trial: Any) -> None:
    trial.suggest_int("layers", 1, 2 + next(counter) % 2)
    if random.random() < 0.5:
        trial.suggest_float("lr", 0.1, 1.0)


def that_raises(trial: Any) -> None:
    trial.suggest_int("layers", 1, 3)
    raise KeyError("no such layer")


def that_raises_now_and_then(trial: Any) -> None:
    if trial.suggest_int("layers", 1, 20) == 17:
        math.sqrt(-1)


def with_bounds_reversed(trial: Any) -> None:
    trial.suggest_float("lr", 1.0, 0.1)


def with_a_log_from_zero(trial: Any) -> None:
    trial.suggest_float("lr", 0.0, 0.1, log=True)


def with_two_kinds_of_one_hyperparameter(trial: Any) -> None:
    trial.suggest_int("layers", 1, 3)
    trial.suggest_float("layers", 1, 3)


def that_reports(trial: Any) -> None:
    trial.suggest_int("layers", 1, 3)
    trial.report(0.5, 1)


def that_knows_its_number(trial: Any) -> None:
    trial.suggest_int("layers", 1, 3 + trial.number)


def that_returns(trial: Any) -> dict[str, int]:
    return {"layers": trial.suggest_int("layers", 1, 3)}


def without_a_trial() -> None: ...


MISTAKES: list[tuple[Any, str]] = [
    (of_a_wrong_type, "must be a whole number"),
    (none_as_a_choice, "kind: None: must be text"),
    (refused_by_params, "suggest gave width_2=13: width_2 13: brings bad luck"),
    (of_nothing, "suggest: it must suggest at least one hyperparameter"),
    (with_changing_choices, "kind: it changes from point to point: choice of ['relu'"),
    (of_a_changing_kind, "lr: it changes from point to point: float"),
    (by_chance, "suggest: the same values gave {"),
    (that_raises, "suggest: KeyError: 'no such layer' ("),
    (that_raises_now_and_then, "suggest: ValueError: math domain error ("),
    (with_bounds_reversed, "lr: suggest_float('lr', 1.0, 0.1): "),
    (with_a_log_from_zero, "lr: suggest_float('lr', 0.0, 0.1): "),
    (with_two_kinds_of_one_hyperparameter, "layers: suggest_float('layers', 1, 3): "),
    (that_reports, "trial.report: a space has suggest_float, suggest_int and suggest_categorical"),
    (that_knows_its_number, "trial.number: a space has suggest_float"),
    (that_returns, "suggest returned {'layers': "),
    (without_a_trial, "suggest: TypeError: "),
]


@pytest.mark.parametrize(("suggest", "expected"), MISTAKES, ids=[each.__name__ for each, _ in MISTAKES])
def test_a_mistake_is_told_once_and_in_words(suggest: Callable[[Any], object], expected: str) -> None:
    (fault,) = faults(suggest)
    assert expected in fault


def test_all_misspelt_hyperparameters_are_told_at_once_with_the_nearest() -> None:
    first, second = faults(misspelt)
    assert first.startswith(
        "lrr: no such hyperparameter of Params. Did you mean 'lr'? Hyperparameters: lr, layers, "
    )
    assert "widht_2: no such hyperparameter of Params. Did you mean 'width_2'?" in second


@pytest.mark.parametrize(("suggest", "line"), [(that_raises, 'KeyError("no such'), (that_reports, "0.5, 1")])
def test_what_it_raises_has_its_line(suggest: Callable[[Any], object], line: str) -> None:
    (fault,) = faults(suggest)
    number = int(fault.rpartition("line ")[2].rstrip(")"))
    assert f"{Path(__file__).name}, line" in fault
    assert line in Path(__file__).read_text().splitlines()[number - 1]


def test_a_hyperparameter_cannot_be_suggested_and_fixed() -> None:
    assert faults(layered, layers=3) == [
        "layers: swept by the space and fixed by --params; take it out of one"
    ]


def test_what_is_fixed_is_checked_as_of_any_space() -> None:
    assert faults(layered, rowss=3, kind=3)[0].startswith(
        "--params rowss: no such hyperparameter. Did you mean 'rows'"
    )


def test_a_searcher_that_cannot_take_it_names_those_that_can() -> None:
    with pytest.raises(UserError, match=r"searcher grid can't take .*: .*random.*tpe") as raised:
        check(layered, Params, {}, frozenset({"finite"}), "grid")
    assert set(TAKING) >= {"random", "tpe"}
    assert str(raised.value).endswith(", ".join(TAKING))


def rarely_raises(trial: Any) -> None:
    if trial.suggest_float("lr", 0.0, 1.0) > 0.98:
        raise RuntimeError("too large")


def test_what_only_shows_later_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeps.space.conditional.SAMPLES", 5)
    space = checked(rarely_raises)
    number = next(number for number in range(SAMPLES) if _refuses(space, (0, number, 0)))
    search = plugins.find("searcher", "random")(
        SweepConfig.from_settings(seed=0), space, new_record(tmp_path)
    )
    found = itertools.islice(search.propose(number), 2)
    assert [point.key for point in found] == [space.draw((0, number, attempt)).key for attempt in (1, 2)]


def of_a_random_range(trial: Any) -> None:
    trial.suggest_float("lr", 1e-3, 1e-1)
    trial.suggest_int("layers", 1, random.randint(3, 8))


def that_exits(trial: Any) -> None:
    sys.exit(3)


def test_a_range_that_is_no_function_of_the_values_is_refused_before_the_start() -> None:
    (fault,) = faults(of_a_random_range)
    assert "layers" in fault
    assert "it must depend on the trial's values alone" in fault


def test_a_suggest_that_exits_is_told_as_any_that_raises() -> None:
    (fault,) = faults(that_exits)
    assert fault.startswith("suggest: SystemExit: 3")


def rarely_other_choices(trial: Any) -> None:
    rare = trial.suggest_float("lr", 0.0, 1.0) > 0.98
    trial.suggest_categorical("kind", ["c", "b", "a"] if rare else ["a", "b", "c"])


def test_choices_that_change_after_the_samples_are_no_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """Optuna would end the sweep when it is told of them."""
    monkeypatch.setattr("sweeps.space.conditional.SAMPLES", 5)
    space = checked(rarely_other_choices)
    drawn = [(0, number, 0) for number in range(SAMPLES)]
    refused = [seeds for seeds in drawn if _refuses(space, seeds)]
    assert 0 < len(refused) < SAMPLES / 10
    with pytest.raises(InvalidPoint, match="kind: it changes from point to point"):
        space.draw(refused[0])


def _refuses(space: Space, seeds: tuple[int, ...]) -> bool:
    try:
        space.draw(seeds)
    except InvalidPoint:
        return True
    return False


# Searchers.


def searcher_of(name: str, record: Record, seed: int = 0, suggest: Callable[[Any], object] = layered) -> Any:
    config = SweepConfig.from_settings(searcher=name, seed=seed, num_trials=100, max_epochs=1, grace_epochs=1)
    return plugins.find("searcher", name).build(config, checked(suggest), record)


def distance(params: Mapping[str, Any]) -> float:
    """Best are three layers, the last one of 12, and lr 0.01; the wider, the better, where there are two."""
    by_lr = abs(math.log10(params["lr"]) + 2) / 3
    return by_lr + {1: 1.0, 2: 0.8 - params.get("width_2", 0) / 20}.get(
        params["layers"], abs(params.get("width_3", 0) - 12) / 20
    )


def play(searcher: Any, record: Record, trials: int) -> list[Mapping[str, Any]]:
    for _ in range(trials):
        number = searcher.suggest("id")["number"]
        record.report(number, 1, -distance(record.trials[number].params), {}, 1.0)
        record.end(number, "finished")
    return [trial.params for trial in record.trials[-trials:]]


def new_record(folder: Path) -> Record:
    folder.mkdir(exist_ok=True)
    return Record.create(folder, "s", "max", {"metric": "m", "trainable": "net"})


@pytest.mark.parametrize("name", TAKING)
def test_a_searcher_proposes_points_of_the_space_none_twice_and_goes_on_from_its_record(
    name: str, tmp_path: Path
) -> None:
    record, space = new_record(tmp_path / "whole"), checked()
    searcher = searcher_of(name, record)
    play(searcher, record, 20)
    shutil.copytree(tmp_path / "whole", tmp_path / "copy")
    whole = play(searcher, record, 10)
    for trial in record.trials:
        assert optuna_point(space, trial.point).params == trial.params
    assert len({trial.point.key for trial in record.trials}) == 30
    again = Record.reopen(tmp_path / "copy")
    assert play(searcher_of(name, again), again, 10) == whole


@pytest.mark.parametrize("name", TAKING)
def test_the_record_holds_what_a_trial_had_and_no_more(name: str, tmp_path: Path) -> None:
    record = new_record(tmp_path)
    play(searcher_of(name, record), record, 20)
    for frozen in optuna_trials(tmp_path):
        assert frozen.params == frozen.user_attrs["params"]
        assert not frozen.user_attrs["fixed"].keys() & {"lr", "layers", "width_2", "width_3"}
    assert {len(trial.params) for trial in record.trials} == {2, 3, 4}


@pytest.mark.slow
def test_tpe_comes_nearer_to_the_best_branch_than_random_search(tmp_path: Path) -> None:
    def found(name: str, seed: int) -> float:
        record = new_record(tmp_path / f"{name}{seed}")
        return median(map(distance, play(searcher_of(name, record, seed), record, 80)[-30:]))

    for seed in (0, 1):
        assert found("tpe", seed) < 0.7 * found("random", seed)


@pytest.mark.parametrize("name", TAKING)
def test_a_searcher_can_be_pickled_at_any_time(name: str, tmp_path: Path) -> None:
    """Tuner pickles all that it is given, while it runs too; it uses no copy."""
    record = new_record(tmp_path)
    searcher = searcher_of(name, record)
    play(searcher, record, 10)
    assert isinstance(cloudpickle.loads(cloudpickle.dumps(searcher)), Searcher)


def test_tpe_says_nothing_of_hyperparameters_that_it_draws_by_themselves(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    record = new_record(tmp_path)
    play(searcher_of("tpe", record), record, 30)
    assert capfd.readouterr() == ("", "")
    assert list(recwarn) == []


def test_trials_that_do_not_replay_teach_tpe_nothing(tmp_path: Path) -> None:
    """A space that was changed under a sweep, with --force."""

    def next_trial(layers: int, sign: int) -> Any:
        record = new_record(tmp_path / f"{layers} {sign}")
        for number in range(16):
            params = {"lr": 10 ** (-number / 8), "layers": layers if number % 2 else 1}
            propose(record, params)
            score = -distance(params) * (sign if number % 2 else 1)
            record.report(number, 1, score, {}, 1.0)
            record.end(number, "finished")
        return searcher_of("tpe", record).suggest("id")["params"]

    assert next_trial(7, 1) == next_trial(7, -1), "of seven layers there is none"
    assert next_trial(1, 1) != next_trial(1, -1)


def test_tpe_waits_for_as_many_scores_as_a_point_has_hyperparameters_at_most(tmp_path: Path) -> None:
    space = checked()
    assert space.dimensions == 4
    drawn, modelled = new_record(tmp_path / "random"), new_record(tmp_path / "tpe")
    first = play(searcher_of("random", drawn), drawn, 7)
    then = play(searcher_of("tpe", modelled), modelled, 7)
    assert first[:6] == then[:6]
    assert first[6] != then[6]
