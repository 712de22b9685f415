"""What Tune is given to write to: it finds the names again that it looks for, wherever it looks."""

from __future__ import annotations

import pickle

from pyarrow.fs import FileSelector, FileType
from ray.tune import Checkpoint

from sweeps.execution.driver import tune_state_stub


def test_it_knows_the_names_of_what_was_written_and_a_copy_finds_all() -> None:
    system = tune_state_stub.file_system()
    system.create_dir("/sweep")
    with system.open_output_stream("/sweep/marker") as file:
        file.write(b"content")
    (info,) = system.get_file_info(["/sweep/marker"])
    assert (info.type, info.size) == (FileType.File, 0)
    assert system.get_file_info(["/sweep/other"])[0].type == FileType.NotFound
    assert [found.path for found in system.get_file_info(FileSelector("/sweep"))] == ["/sweep/marker"]
    copy = pickle.loads(pickle.dumps(system))
    assert copy.get_file_info(["/sweep/marker"])[0].type == FileType.File
    assert tune_state_stub.file_system().get_file_info(["/sweep/marker"])[0].type == FileType.NotFound


def test_a_checkpoint_is_an_empty_folder_for_another_process() -> None:
    """Tune fetches it before a trial goes on: one that was not found would fail the trial."""
    there = Checkpoint(path="/sweep/trial_0003/checkpoint_000001", filesystem=tune_state_stub.file_system())
    with pickle.loads(pickle.dumps(there)).as_directory() as folder:
        assert folder
