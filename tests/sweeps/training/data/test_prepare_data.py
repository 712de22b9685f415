"""Lightning's `prepare_data` of several processes of a PC."""

from __future__ import annotations

import pickle
import subprocess
import sys
import uuid
from pathlib import Path

import lightning.pytorch as pl
import pytest

from sweeps.training.data import prepare_data
from tests import ROOT

BUSY = """
import sys, time
from pathlib import Path
import lightning.pytorch as pl
from sweeps.training.data import prepare_data

run, folder, kind = sys.argv[1], Path(sys.argv[2]), sys.argv[3]

class Downloads(pl.LightningDataModule if kind == "data" else pl.LightningModule):
    def prepare_data(self):
        (folder / "busy").mkdir()  # raises where another one is here
        time.sleep(0.3)
        (folder / "busy").rmdir()
        with (folder / "calls").open("a") as calls:
            calls.write("called ")

prepare_data.guard(downloads := Downloads(), run)
downloads.prepare_data()
"""


class Keeps(pl.LightningDataModule):
    """Notes its calls."""

    def __init__(self, folder: Path, sets: bool = False, fails: bool = False, rows: object = 1) -> None:
        super().__init__()
        self.folder, self.sets, self.fails, self.rows = folder, sets, fails, rows

    def prepare_data(self) -> None:
        with (self.folder / "calls").open("a") as calls:
            calls.write("called ")
        if self.sets:
            self.vocabulary = ["a"]
        if self.fails:
            raise OSError("the server does not answer")


def calls(folder: Path) -> int:
    return len((folder / "calls").read_text().split())


@pytest.mark.parametrize(("kind", "is_of_sweep", "times"), [("model", True, 1), ("data", False, 3)])
def test_one_process_at_a_time_is_in_it_and_in_a_run_one_alone(
    kind: str, is_of_sweep: bool, times: int, tmp_path: Path
) -> None:
    run = uuid.uuid4().hex if is_of_sweep else ""
    words = [sys.executable, "-c", BUSY, run, str(tmp_path), kind]
    processes = [subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 3, said
    assert calls(tmp_path) == times


def test_it_is_called_again_where_something_has_changed(tmp_path: Path) -> None:
    run = uuid.uuid4().hex
    for rows in (1, 1, 2, object(), object()):  # these two can't be compared
        prepare_data.guard(data := Keeps(tmp_path, rows=rows), run)
        data.prepare_data()
    assert calls(tmp_path) == 4
    prepare_data.guard(data := Keeps(tmp_path), uuid.uuid4().hex)
    data.prepare_data()
    assert calls(tmp_path) == 5, "another run"


def test_what_it_sets_it_sets_in_each_process(tmp_path: Path) -> None:
    run = uuid.uuid4().hex
    for _ in range(2):
        prepare_data.guard(data := Keeps(tmp_path, sets=True), run)
        data.prepare_data()
        assert data.vocabulary == ["a"]


def test_one_that_failed_is_called_again(tmp_path: Path) -> None:
    run = uuid.uuid4().hex
    for _ in range(2):
        prepare_data.guard(data := Keeps(tmp_path, fails=True), run)
        with pytest.raises(OSError, match="does not answer"):
            data.prepare_data()
    assert calls(tmp_path) == 2


def test_a_guarded_module_can_be_sent_to_another_process(tmp_path: Path) -> None:
    prepare_data.guard(data := Keeps(tmp_path))
    pickle.loads(pickle.dumps(data)).prepare_data()
    assert calls(tmp_path) == 1
