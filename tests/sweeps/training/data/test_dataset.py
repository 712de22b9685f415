"""What a data set is called after: raw files, hyperparameters, and the code of `prepare` alone."""

from __future__ import annotations

import importlib
import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partialmethod
from pathlib import Path
from typing import Any

import pytest

from sweeps.common.errors import CannotTrain, UserError
from sweeps.kinds.lightning import LightningFile
from sweeps.training.data import dataset
from sweeps.training.data.dataset import DataSet, Declared, UndeclaredHyperparameter
from tests.support.clips import FILES, Clips


@pytest.fixture
def clips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clips]:
    clips = Clips(tmp_path, f"clips_of_{tmp_path.name}")
    for name in ("a", "b"):
        clips.add(name)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("SWEEPS_DATA_DIR", str(clips.raw))
    monkeypatch.setenv("SWEEPS_PREPARED_DIR", str(clips.prepared))
    return clips


def look(clips: Clips, **params: Any) -> DataSet:
    return dataset.find_data_set(LightningFile("mine", importlib.import_module(clips.model)), params)


def test_the_same_is_called_the_same(clips: Clips) -> None:
    data_set = look(clips)
    assert data_set.folder == look(clips, lr=0.5, batch_size=3).folder, "no prepared row depends on these"
    assert data_set.folder.parent == clips.prepared
    assert data_set.folder.name == f"model-{data_set.key[:12]}"


def test_a_hyperparameter_of_the_data_changes_key_and_recipe(clips: Clips) -> None:
    one, other = look(clips, pixels=4), look(clips, pixels=5)
    assert one.key == look(clips).key, "4 is the default"
    assert one.key != other.key
    assert one.parts_folder != other.parts_folder


def see_changed(clips: Clips, name: str) -> None:
    """A change of a file gives the data set, and its parts, another name."""
    before = look(clips)
    with (clips.home / clips.package / name).open("a") as file:
        file.write("# changed\n")
    assert look(clips).key != before.key
    assert look(clips).parts_folder != before.parts_folder


@pytest.mark.parametrize("name", ["_raw.py", "__init__.py", "_deep.py"])
def test_the_code_of_prepare_and_what_it_imports_changes_both(name: str, clips: Clips) -> None:
    clips.code("_deep.py", "DEPTH = 1\n")
    raw = clips.home / clips.package / "_raw.py"
    raw.write_text(
        raw.read_text().replace("import json\n", f"import json\nfrom {clips.package} import _deep\n", 1)
    )
    see_changed(clips, name)


@pytest.mark.parametrize(
    "made",
    [
        "import functools\nprepare = functools.partial(_raw.prepare)",
        "prepare = _raw.timed(_raw.prepare)",
        "@_raw.timed\ndef prepare(item, params):\n    yield item",
    ],
)
def test_the_code_of_the_trainable_changes_both_where_prepare_is_made_there(made: str, clips: Clips) -> None:
    imported = "from PACKAGE._raw import prepare, raw_items"
    own = f"from PACKAGE import _raw\n{made}\nraw_items = _raw.raw_items"
    clips.code("model.py", FILES["model.py"].replace(imported, own))
    clips.code("_raw.py", FILES["_raw.py"] + "def timed(own):\n    return lambda *given: own(*given)\n")
    for name in ("model.py", "_raw.py"):
        see_changed(clips, name)


@pytest.mark.parametrize(
    ("made", "taken"),
    [
        ("class Reader:\n    @staticmethod\n    def read(*given):\n        yield", "_raw.Reader.read"),
        ("class Reader:\n    @classmethod\n    def read(cls, *given):\n        yield", "_raw.Reader.read"),
        ("READERS = [lambda *given: prepare(*given)]\nread = READERS[0]", "_raw.read"),
        ("class Reader:\n    __call__ = staticmethod(prepare)\nread = Reader()", "_raw.read"),
    ],
)
def test_what_the_module_of_prepare_makes_itself_depends_on_no_code_of_the_model(
    made: str, taken: str, clips: Clips
) -> None:
    imported = "from PACKAGE._raw import prepare, raw_items"
    own = f"from PACKAGE import _raw\nprepare, raw_items = {taken}, _raw.raw_items"
    clips.code("model.py", FILES["model.py"].replace(imported, own))
    clips.code("_raw.py", f"{FILES['_raw.py']}\n{made}\n")
    before = look(clips)
    with (clips.home / clips.package / "model.py").open("a") as file:
        file.write("# changed\n")
    assert look(clips).key == before.key
    with (clips.home / clips.package / "_raw.py").open("a") as file:
        file.write("# changed\n")
    assert look(clips).key != before.key


@pytest.mark.parametrize("name", ["model.py", "space.py"])
def test_the_code_of_the_model_changes_neither(name: str, clips: Clips) -> None:
    before = look(clips)
    with (clips.home / clips.package / name).open("a") as file:
        file.write("# changed\n")
    assert look(clips).key == before.key


def test_raw_files_change_the_key_and_keep_the_recipe(clips: Clips) -> None:
    before = look(clips)
    clips.add("c")
    more = look(clips)
    assert more.key != before.key
    assert more.parts_folder == before.parts_folder
    assert {item.part for item in before.items} < {item.part for item in more.items}
    (clips.raw / "train" / "c.json").unlink()
    assert look(clips).key == before.key
    (clips.raw / "train" / "a.json").rename(clips.raw / "train" / "z.json")
    assert look(clips).key != before.key


def test_its_place_is_the_users_cache_or_what_is_said(clips: Clips, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWEEPS_PREPARED_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert dataset.root() == Path("/somewhere/sweeps/prepared")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert dataset.root() == Path("/home/me/.cache/sweeps/prepared")
    monkeypatch.setenv("SWEEPS_PREPARED_DIR", "~/prepared")  # in quotes: no shell replaces the ~
    assert dataset.root() == Path("/home/me/prepared")


def test_it_says_what_it_is_made_of(clips: Clips) -> None:
    bytes_ = sum(path.stat().st_size for path in clips.raw.rglob("*.json"))
    assert look(clips).describe() == f"to be prepared: 2 raw files of {bytes_} B in {clips.raw / 'train'}"


def test_params_that_refuse_the_hyperparameters_alone_say_so(clips: Clips) -> None:
    with pytest.raises(
        UserError, match=r"mine: Params refuses pixels=0 \(only PREPARE_PARAMS are set\): pixels 0"
    ):
        look(clips, pixels=0)


@dataclass(frozen=True, kw_only=True)
class Params:
    pixels: int = 4
    lr: float = 0.1

    @property
    def area(self) -> int:
        return self.pixels**2


def test_of_params_the_declared_hyperparameters_alone_can_be_read() -> None:
    params = Declared(Params(pixels=3), ("pixels",), "prepare")
    for each in (params, pickle.loads(pickle.dumps(params))):
        assert (each.pixels, each.area) == (3, 9)
        for read in (lambda p=each: p.lr, lambda p=each: getattr(p, "lr", 0)):
            with pytest.raises(
                UndeclaredHyperparameter,
                match="prepare reads the hyperparameter lr: add it to PREPARE_PARAMS",
            ):
                read()
    with pytest.raises(AttributeError, match="no_such"):
        _ = params.no_such


@dataclass(frozen=True, kw_only=True)
class Derived(Params):
    scale: float = 0.5

    @property
    def side(self) -> float:
        return self._scaled()

    @cached_property
    def kept_side(self) -> float:
        return self._scaled()

    def side_of(self, times: float = 1) -> float:
        return times * self._scaled()

    one_side = partialmethod(side_of, 1)

    @property
    def area(self) -> int:
        return int(super().area * self.scale**2)

    def _scaled(self) -> float:
        return self.pixels * self.scale

    @staticmethod
    def half_of(number: int) -> int:
        return number // 2

    @classmethod
    def double_of(cls, number: int) -> int:
        return cls.half_of(number) * 4


@pytest.mark.parametrize(
    "read",
    [
        lambda p: p.side,
        lambda p: p.kept_side,
        lambda p: p.side_of(),
        lambda p: p.one_side(),
        lambda p: p.area / 2,
    ],
)
def test_what_params_derive_is_read_of_the_declared_hyperparameters_alone(
    read: Callable[[Any], float],
) -> None:
    """Of the others a data set has the defaults, whatever a trial has."""
    assert read(Declared(Derived(pixels=4), ("pixels", "scale"), "prepare")) == 2
    with pytest.raises(UndeclaredHyperparameter, match="prepare reads the hyperparameter scale: add it"):
        read(Declared(Derived(pixels=4), ("pixels",), "prepare"))


def test_what_params_make_of_no_hyperparameter_can_be_read() -> None:
    params = Declared(Derived(pixels=4), ("pixels",), "prepare")
    assert (params.half_of(6), params.double_of(6)) == (3, 12)


def test_raw_items_that_read_another_hyperparameter_are_told(clips: Clips) -> None:
    path = clips.home / clips.package / "_raw.py"
    path.write_text(
        path.read_text().replace("def raw_items(params):", "def raw_items(params):\n    params.lr")
    )
    with pytest.raises(
        UserError, match="mine: raw_items reads the hyperparameter lr: add it to PREPARE_PARAMS"
    ):
        look(clips)


def test_without_a_folder_there_is_nothing_to_train_on(clips: Clips) -> None:
    trainable = LightningFile("mine", importlib.import_module(clips.model))
    with pytest.raises(CannotTrain, match="reads prepared data, but no folder of prepared data was given"):
        trainable.build_data(trainable.params_class(), None)


def test_a_changed_raw_file_is_seen_by_its_content(clips: Clips) -> None:
    before = look(clips)
    path = clips.raw / "train" / "a.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "rows": 21}))
    assert look(clips).key != before.key
