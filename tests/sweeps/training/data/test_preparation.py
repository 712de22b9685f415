"""Raw data is prepared once, on a real Ray: what changes is seen, what breaks is named, nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest
import ray

from sweeps.common.errors import CannotContinue, UserError
from sweeps.training.data import preparation, ray_pipeline
from sweeps.training.data.datamodule import ParquetDataModule
from sweeps.training.data.shards import Manifest, NotPrepared
from tests.conftest import MODE, fill_up
from tests.support import children
from tests.support.clips import FILES, RAW, Clips
from tests.sweeps.training.data.looked_up import look


def rows_in(folder: Path, split: str = "train") -> list[int]:
    """The numbers of all rows, as they lie there."""
    manifest = Manifest.read(folder)
    module = ParquetDataModule(folder, 8)
    loader = getattr(module, f"{split}_dataloader")() if split != "train" else module._loader("train")
    assert manifest.rows(split) == len(loader.dataset)
    return [row for batch in loader for row in batch["row"].tolist()]


def parts_of(clips: Clips) -> list[Path]:
    return sorted(clips.prepared.glob("*-parts-*/*.arrows"))


# The happy path.


@pytest.mark.slow
def test_every_row_of_every_file_is_there_once_in_its_split(
    clips: Clips, capsys: pytest.CaptureFixture[str]
) -> None:
    data_set = look(clips)
    assert not data_set.is_there()
    folder = preparation.ensure_prepared(data_set)
    train = rows_in(folder)
    assert sorted(train) == list(range(120))
    assert train != sorted(train)
    assert (sorted(rows_in(folder, "val")), sorted(rows_in(folder, "test"))) == (
        list(range(120, 140)),
        list(range(140, 160)),
    )
    batch = next(iter(ParquetDataModule(folder, 8).train_dataloader()))
    assert np.array_equal(batch["pixels"].numpy(), np.repeat(batch["row"].numpy() % 256, 4).reshape(-1, 4))
    manifest = Manifest.read(folder)
    assert manifest.fingerprint == data_set.key
    assert (manifest.about["skipped"], manifest.about["raw_files"]) == ([], 8)
    assert not list(clips.prepared.glob("model-parts-*"))
    said = capsys.readouterr().out
    assert f"Preparing model (pixels=4): 8 raw files of {data_set.raw_bytes} B in {clips.raw}" in said
    assert "rows       20 test, 120 train, 20 val" in said
    assert sorted(clips.calls()) == [*(f"c{n}" for n in range(6)), "t0", "v0"]


def test_what_did_not_change_is_not_prepared_again(clips: Clips, capsys: pytest.CaptureFixture[str]) -> None:
    folder = preparation.ensure_prepared(look(clips))
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    for path in clips.raw.rglob("*.json"):
        os.utime(path, (1, 1))  # touched: another time, the same content
    for lock in clips.prepared.glob(".*.lock"):
        lock.unlink()
        lock.mkdir()  # as where nothing can be written: in a folder of another user, on a read-only mount
    clips.forget_calls()
    capsys.readouterr()
    assert preparation.ensure_prepared(look(clips), has_to_say=True) == folder
    assert clips.calls() == []
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert capsys.readouterr().out.startswith("prepared already: ")


@pytest.mark.slow
def test_a_raw_file_that_changed_makes_another_data_set(clips: Clips) -> None:
    folder = preparation.ensure_prepared(look(clips))
    changed = clips.raw / "train" / "c0.json"
    changed.write_text(json.dumps({**json.loads(changed.read_text()), "first": 1000}))
    other = preparation.ensure_prepared(look(clips))
    assert other != folder
    assert sorted(rows_in(other)) == [*range(20, 120), *range(1000, 1020)]
    assert sorted(rows_in(folder)) == list(range(120))


@pytest.mark.slow
def test_a_swept_hyperparameter_has_data_of_its_own(clips: Clips) -> None:
    folders = [preparation.ensure_prepared(look(clips, pixels=pixels, lr=0.5)) for pixels in (4, 3)]
    assert [Manifest.read(folder).columns["pixels"].shape for folder in folders] == [(4,), (3,)]
    assert rows_in(folders[0]) == rows_in(folders[1]), "the same seed, the same order"


# What breaks.


@pytest.mark.slow
def test_corrupt_files_are_left_out_and_listed_with_their_reasons(
    clips: Clips, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, fault in (("raises", "raises"), ("exits", "exits"), ("dies", "dies"), ("killed", "killed")):
        clips.add(name, fault=fault)
    clips.add("other", fault="other")
    clips.add("empty", rows=0)
    clips.add("rowless", fault="rowless")
    folder = preparation.ensure_prepared(look(clips), max_bad_pct=50)
    assert sorted(rows_in(folder)) == list(range(120))
    skipped = {Path(s["file"]).stem: s["reason"] for s in Manifest.read(folder).about["skipped"]}
    line = RAW.splitlines().index('            raise ValueError("no key frame\\nfound")') + 1
    died = "its process died twice: native code crashed, or memory ran out"
    assert skipped == {
        "raises": f"ValueError: no key frame found (_raw.py, line {line})",
        "exits": f"SystemExit: 3 (_raw.py, line {line + 2})",
        "dies": died,
        "killed": died,
        "empty": "prepare yields no row",
        "rowless": "prepare yields no row",
        "other": (
            "its columns are row float32[], pixels uint8[4]; most files have row int64[], pixels uint8[4]"
        ),
    }
    assert clips.calls().count("dies") == clips.calls().count("killed") == 2
    said = capsys.readouterr().out
    assert "skipped    7 of 15 raw files:" in said
    assert all(f"{name}.json: {reason}" in said for name, reason in skipped.items())


@pytest.mark.slow
def test_a_file_whose_process_dies_once_loses_and_doubles_no_row(clips: Clips) -> None:
    clips.add("once", rows=40, fault="killed once")
    folder = preparation.ensure_prepared(look(clips), max_bad_pct=0)
    assert clips.calls().count("once") == 2
    assert sorted(rows_in(folder)) == [*range(120), *range(160, 200)]


@pytest.mark.slow
def test_a_file_that_fails_once_its_process_has_died_is_left_out_as_a_whole(clips: Clips) -> None:
    """Ray hands out what comes behind the blocks of the first process, and no fault before that."""
    fails = 'fault == "raises" or fault == "killed once" and not is_first_call:'
    clips.code("_raw.py", FILES["_raw.py"].replace('fault == "raises":', fails))
    clips.add("once", rows=40, fault="killed once")
    folder = preparation.ensure_prepared(look(clips), max_bad_pct=20)
    assert clips.calls().count("once") == 2
    assert sorted(rows_in(folder)) == list(range(120))
    (skipped,) = Manifest.read(folder).about["skipped"]
    assert skipped["reason"] == "its process died, and another one did not come as far"


def test_what_another_pc_can_not_prepare_is_tried_again_on_this_one(
    clips: Clips, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is one PC, whose first try stands for one on another PC: that may lack the file, or a package."""
    fails = 'fault == "raises" and is_first_call:'
    clips.code("_raw.py", FILES["_raw.py"].replace('fault == "raises":', fails))
    clips.add("missed", fault="raises")
    monkeypatch.setattr(ray, "nodes", lambda: [{}, {}])
    folder = preparation.ensure_prepared(look(clips), max_bad_pct=0)
    assert clips.calls().count("missed") == 2
    assert sorted(rows_in(folder)) == [*range(120), *range(160, 180)]


def test_more_corrupt_files_than_allowed_end_it_and_the_good_parts_are_kept(clips: Clips) -> None:
    bad = [clips.add(f"bad{number}", fault="raises") for number in range(2)]
    expected = (
        r"(?s)\d raw files? of 10 can't be prepared; --max-bad-pct 5 allows 0\..*bad\d.json: ValueError"
        r".*\nTo allow N percent: .*sweeps prepare "
        rf"{clips.model} --params pixels=4 --data-dir {clips.raw} --prepared-dir {clips.prepared} "
        r"--max-bad-pct N$"
    )
    with pytest.raises(CannotContinue, match=expected):
        preparation.ensure_prepared(look(clips), max_bad_pct=5)
    kept = {path.stem for path in parts_of(clips)}
    assert not look(clips).is_there()
    for path in bad:
        path.unlink()
    data_set = look(clips)
    clips.forget_calls()  # a task that was cancelled may still note its own
    assert sorted(rows_in(preparation.ensure_prepared(data_set))) == list(range(120))
    done = {Path(item.name).stem for item in data_set.items if item.part in kept}
    assert not done & set(clips.calls()), "what is prepared is not prepared again, though raw files went"


@pytest.mark.long
def test_a_hyperparameter_that_is_not_declared_ends_it_as_the_trainables_mistake(clips: Clips) -> None:
    clips.code("model.py", FILES["model.py"].replace('("pixels",)', "()"))
    expected = f"error: {clips.model}: prepare reads the hyperparameter pixels: add it to PREPARE_PARAMS\n"
    assert expected in clips.run(status=2)
    assert expected in clips.run("--pixels", "64", module="sweeps.fit", status=2)
    assert not parts_of(clips)
    assert not list(clips.prepared.glob("*/manifest.json"))


def test_it_stops_as_soon_as_too_many_are_corrupt(clips: Clips) -> None:
    for number in range(4):
        clips.add(f"a_bad{number}", fault="raises")
    for number in range(28):
        clips.add(f"slow{number}", seconds=0.3)
    with pytest.raises(CannotContinue, match=r"4 raw files of 40 can't .* allows 3\."):
        preparation.ensure_prepared(look(clips), max_bad_pct=8)
    assert len(clips.calls()) < 40


def test_a_split_without_a_good_file_is_named(clips: Clips) -> None:
    clips.add("v0", split="val", fault="raises")
    with pytest.raises(
        CannotContinue, match=r"no raw file of split val can be prepared.\n  .*v0.json: ValueError"
    ):
        preparation.ensure_prepared(look(clips), max_bad_pct=20)


def test_a_full_disk_is_said_and_what_is_prepared_is_kept(
    clips: Clips, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEEPS_PREPARED_DIR", str(small_disk))
    for number in range(4):
        clips.add(f"big{number}", rows=2000)
    data_set = look(clips, pixels=200)
    others = fill_up(small_disk, leave=1_200_000)
    with pytest.raises(
        CannotContinue, match=f"{small_disk}: the disk is full. What is prepared is kept in model-"
    ):
        preparation.ensure_prepared(data_set)
    assert not data_set.is_there()
    assert 0 < len(list(data_set.parts_folder.iterdir())) < 12
    others.unlink()
    # 1.6 MB of parts, and as much of shards: they do not fit together, and are not called whole.
    with pytest.raises(CannotContinue, match="the disk is full"):
        preparation.ensure_prepared(data_set)
    assert not data_set.folder.exists()
    assert len(list(data_set.parts_folder.glob("*.arrows"))) == 12


def test_a_shard_that_is_lost_is_made_again(clips: Clips, capsys: pytest.CaptureFixture[str]) -> None:
    folder = preparation.ensure_prepared(look(clips))
    (folder / "train-00000.parquet").unlink()
    with pytest.raises(NotPrepared, match=r"train-00000\.parquet is missing"):
        ParquetDataModule(folder, 8)
    assert preparation.ensure_prepared(look(clips)) == folder
    assert sorted(rows_in(folder)) == list(range(120))
    assert "train-00000.parquet is missing. It is prepared again." in capsys.readouterr().out


# What is broken off.


def test_the_parts_of_another_data_set_stay(clips: Clips) -> None:
    both = look(clips)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Manifest, "write", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            preparation.ensure_prepared(both)
    begun = both.part(both.items[0]).with_name(".killed.arrows.part")
    begun.touch()
    kept = [both.part(item) for item in both.items if item.split == "train"]
    away = clips.raw.rename(clips.raw.with_name("away"))
    clips.add("v1", split="train")
    preparation.ensure_prepared(look(clips))
    assert all(part.exists() for part in kept)
    assert not begun.exists()
    clips.raw.rename(clips.raw.with_name("gone"))
    away.rename(clips.raw)
    clips.forget_calls()
    assert preparation.ensure_prepared(look(clips)) == both.folder
    assert clips.calls() == []
    assert not both.parts_folder.exists()


@pytest.mark.slow
def test_a_preparation_that_was_killed_goes_on_and_prepares_no_file_twice(clips: Clips) -> None:
    goes_on = clips.hold("c4", "c5", "v0")
    begun = clips.begin()
    while len(parts_of(clips)) < 5:
        assert begun.poll() is None, begun.communicate()
        time.sleep(0.05)
    below = psutil.Process(begun.pid).children(recursive=True)
    workers = children.running("", below) - children.running("Agent", below)  # Ray's stay a while
    begun.send_signal(signal.SIGKILL)
    begun.wait()
    goes_on.touch()
    psutil.wait_procs(workers, timeout=60)  # what was under way in them ends
    kept = {path.stem for path in parts_of(clips)}
    assert len(kept) == 5
    clips.forget_calls()
    data_set = look(clips)
    clips.add("new")  # raw files may come meanwhile
    folder = preparation.ensure_prepared(look(clips))
    done = {Path(item.name).stem for item in data_set.items if item.part in kept}
    assert sorted(clips.calls()) == sorted({*(f"c{n}" for n in range(6)), "t0", "v0", "new"} - done)
    assert sorted(rows_in(folder)) == [*range(120), *range(160, 180)]


KILLED_BEFORE_THE_MANIFEST = """
import os, signal, sys
from sweeps import prepare
from sweeps.training.data import shards
shards.Manifest.write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
prepare.main(sys.argv[1:])
"""


def test_shards_without_their_manifest_are_no_data_set(clips: Clips, monkeypatch: pytest.MonkeyPatch) -> None:
    data_set = look(clips)
    with monkeypatch.context() as patched:
        patched.setattr(Manifest, "write", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            preparation.ensure_prepared(data_set)
    assert len(parts_of(clips)) == 8
    killed = clips.python("-c", KILLED_BEFORE_THE_MANIFEST, clips.model)
    assert killed.wait(timeout=60) == -signal.SIGKILL, killed.communicate()
    assert len(list(data_set.folder.glob("*.parquet"))) == 3
    assert not data_set.is_there()
    with pytest.raises(NotPrepared, match=r"manifest\.json is missing"):
        ParquetDataModule(data_set.folder, 8)
    clips.forget_calls()
    assert sorted(rows_in(preparation.ensure_prepared(data_set))) == list(range(120))
    assert clips.calls() == []


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_of_two_at_once_one_waits_and_finds_it_done(clips: Clips) -> None:
    data_set = look(clips)
    with preparation.lock_preparation(data_set):
        second = clips.begin()
        assert second.stdout is not None
        assert second.stdout.readline() == "Another process is preparing model. Waiting for it.\n"
        preparation._prepare(data_set, 10, None)
    said, _ = second.communicate(timeout=60)
    assert second.returncode == 0
    assert said.startswith("prepared already: ")
    assert sorted(clips.calls()) == [*(f"c{n}" for n in range(6)), "t0", "v0"]


def test_it_says_that_all_cores_are_held_and_goes_on_when_one_is_free(
    clips: Clips, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As by the trials of another sweep, which end here once that is said."""
    monkeypatch.setattr(ray_pipeline, "SAY_AFTER_S", 0.2)
    trials = ray.util.placement_group([{"CPU": 2}])
    assert trials.wait(60)  # what an earlier test has held is free only now
    while "CPU" in ray.available_resources():
        time.sleep(0.05)
    said = ""

    def end_trials() -> None:
        nonlocal said
        for _ in range(1200):
            if "No CPU core of this Ray is free" in said:
                break
            time.sleep(0.05)
            said += capsys.readouterr().out
        ray.util.remove_placement_group(trials)

    with ThreadPoolExecutor() as beside:
        ended = beside.submit(end_trials)
        folder = preparation.ensure_prepared(look(clips))
        ended.result()
    assert (said + capsys.readouterr().out).count("No CPU core of this Ray is free") == 1
    assert sorted(rows_in(folder)) == list(range(120))


# The commands.


@pytest.mark.long
def test_ctrl_c_says_how_to_go_on(clips: Clips) -> None:
    goes_on = clips.hold("c5", "v0")
    begun = clips.begin("--pixels", "3")
    while not parts_of(clips):
        assert begun.poll() is None, begun.communicate()
        time.sleep(0.05)
    begun.send_signal(signal.SIGINT)
    said, _ = begun.communicate(timeout=60)
    assert begun.returncode == 130, said
    assert f"sweeps prepare {clips.model} --pixels 3" in said
    assert "Traceback" not in said
    assert parts_of(clips)
    goes_on.touch()
    assert "already prepared" in clips.run("--pixels", "3")


@pytest.mark.slow
def test_prepared_data_is_checked_and_what_is_damaged_is_named(
    clips: Clips, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from sweeps import prepare

    def told(*flags: str, status: int = 0) -> str:
        """What the command prints."""
        capsys.readouterr()
        assert prepare.main([clips.model, *flags]) == status
        printed = capsys.readouterr()
        return printed.out + printed.err

    monkeypatch.chdir(clips.home)
    monkeypatch.setenv(MODE, "disabled")  # as for the Ray of these tests
    assert "no prepared data in " in told("--check", status=1)
    folder = preparation.ensure_prepared(look(clips))
    assert told("--check").startswith("intact: ")
    path = folder / "train-00000.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    said = told("--check", status=1)
    assert f"error: {path}: damaged: its checksum differs" in said
    remedy = said.splitlines()[-1].removeprefix("Remedy ").strip()
    assert remedy.startswith(f"rm {path.relative_to(clips.home)} && ")
    assert told().startswith("prepared already: "), "which is why it has to go first"
    subprocess.run(remedy, shell=True, check=True, cwd=clips.home, env=clips.environment, timeout=180)
    assert told("--check").startswith("intact: ")
    path.unlink()
    said = told("--check", status=1)
    assert f"error: {path} is missing\n" in said
    assert said.splitlines()[-1].endswith(
        f"sweeps prepare {clips.model} --params pixels=4 --data-dir {clips.raw.relative_to(clips.home)} "
        f"--prepared-dir {clips.prepared.relative_to(clips.home)}"
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--pixles", "3"), r"--pixles: no such flag. Did you mean '--pixels'?"),
        (("--pixels", "3.5"), "--pixels 3.5: must be a whole number"),
        (("--pixels", "0"), "--params: pixels 0: at least 1"),
        (
            ("--params", "lr=0.1"),
            "--params lr: prepared rows do not depend on it. Hyperparameters that they depend on: pixels",
        ),
        (("--max-bad-pct", "101"), "--max-bad-pct 101: must be at least 0 and at most 100"),
        (("--max-bad-pct", "many"), "--max-bad-pct many: must be a number"),
        (("--data-dir", "nowhere"), "no clips here; --data-dir FOLDER, or ask your librarian"),
        (("--address", "127.0.0.1:1"), "--address 127.0.0.1:1: no Ray cluster answers there"),
    ],
)
def test_a_mistake_is_answered(
    arguments: tuple[str, ...], expected: str, clips: Clips, capsys: pytest.CaptureFixture[str]
) -> None:
    from sweeps import prepare

    if "--address" in arguments:
        said = clips.run(*arguments, status=2)
    else:
        assert prepare.main([clips.model, *arguments]) == 2
        said = capsys.readouterr().err
    assert f"error: {expected}" in said


def test_a_winners_hyperparameters_may_be_given_as_a_file(clips: Clips, tmp_path: Path) -> None:
    from sweeps import prepare

    (tmp_path / "params.yaml").write_text("params:\n  lr: 0.5\n  pixels: 3\n")
    asked = prepare.parse([clips.model, "--params", str(tmp_path / "params.yaml")])
    assert asked.hyperparameters == {"pixels": 3}
    with pytest.raises(
        UserError, match=r"digits_mlp: its data needs no preparation: it does not define prepare"
    ):
        prepare.parse(["digits_mlp"])


def test_a_single_run_prepares_by_itself_and_every_epoch_has_its_own_order(
    clips: Clips, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from sweeps import fit

    step = "        def training_step(self, batch, index):\n"
    note = f"            note = open({str(tmp_path / 'read')!r}, 'a')\n"
    say = "            print(self.current_epoch, *batch['row'].tolist(), file=note)\n"
    clips.code("model.py", FILES["model.py"].replace(step, step + note + say))
    monkeypatch.chdir(clips.home)
    arguments = [clips.model, "--max-epochs", "3", "--test", "--results-dir", str(tmp_path), "--name"]
    assert fit.main([*arguments, "first"]) == 0
    said = capsys.readouterr().out
    assert "Preparing model" in said
    assert "test_loss" in said
    lines = [line.split() for line in (tmp_path / "read").read_text().splitlines()]
    orders = [[row for epoch, *rows in lines for row in rows if epoch == str(wanted)] for wanted in range(3)]
    assert [sorted(map(int, order)) for order in orders] == [list(range(120))] * 3
    assert orders[0] != orders[1] != orders[2] != orders[0]
    clips.forget_calls()
    assert fit.main([*arguments, "second"]) == 0
    assert clips.calls() == []
    assert "Preparing model" not in capsys.readouterr().out


def test_data_that_lacks_what_training_needs_is_answered(
    clips: Clips, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from sweeps import fit

    (clips.raw / "val" / "v0.json").unlink()
    (clips.raw / "val").rmdir()
    monkeypatch.chdir(clips.home)
    assert fit.main([clips.model, "--max-epochs", "1", "--results-dir", str(tmp_path)]) == 2
    assert f"error: {look(clips).folder}: no split 'val'; it has test, train\n" in capsys.readouterr().err
