"""Lightning's `prepare_data` of several processes of a PC."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import lightning.pytorch as pl
import pytest

from sweeps.training import trainer
from tests import ROOT

FORKED = """
import os, sys, time
from pathlib import Path
import lightning.pytorch as pl
from sweeps.training import trainer

folder = Path(sys.argv[1])

class Downloads:
    def prepare_data(self):
        (folder / "busy").mkdir()  # raises where another one is here
        time.sleep(0.3)
        (folder / "busy").rmdir()
        with (folder / "calls").open("a") as calls:
            calls.write(f"{type(self).__name__} ")

class Model(Downloads, pl.LightningModule):
    pass

class Data(Downloads, pl.LightningDataModule):
    pass

for kind in (Model, Data):
    for _ in range(3):
        if not os.fork():
            trainer.guard_download(downloads := kind())
            downloads.prepare_data()
            sys.exit()
    if any([os.wait()[1] for _ in range(3)]):
        sys.exit(1)
"""


@pytest.mark.slow
def test_one_process_at_a_time_is_in_it(tmp_path: Path) -> None:
    """Of a model, and of a data module."""
    words = [sys.executable, "-c", FORKED, str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "calls").read_text().split() == ["Model"] * 3 + ["Data"] * 3


class Keeps(pl.LightningDataModule):
    """Notes its call."""

    is_prepared = False

    def prepare_data(self) -> None:
        self.is_prepared = True


def test_a_guarded_module_can_be_sent_to_another_process() -> None:
    trainer.guard_download(data := Keeps())
    pickle.loads(pickle.dumps(data)).prepare_data()
    assert not data.is_prepared
    data.prepare_data()
    assert data.is_prepared
