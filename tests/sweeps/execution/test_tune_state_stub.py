"""What Tune is given to write to: it finds the names again that it looks for, wherever it looks."""

from __future__ import annotations

import pickle

from pyarrow.fs import FileSelector, FileType
from ray.tune import Checkpoint

from sweeps.execution.driver import tune_state_stub


def test_a_copy_knows_the_names_and_no_contents() -> None:
    system = tune_state_stub.file_system()
    system.create_dir("/sweep")
    with system.open_output_stream("/sweep/marker") as file:
        file.write(b"content")
    copy = pickle.loads(pickle.dumps(system))
    (info,) = copy.get_file_info(["/sweep/marker"])
    assert (info.type, info.size) == (FileType.File, 0)
    assert copy.get_file_info(["/sweep/other"])[0].type == FileType.NotFound
    assert [found.path for found in copy.get_file_info(FileSelector("/sweep"))] == ["/sweep/marker"]


def test_a_checkpoint_is_an_empty_folder_for_another_process() -> None:
    """Tune fetches it before a trial goes on: one that was not found would fail the trial."""
    there = Checkpoint(path="/sweep/trial_0003/checkpoint_000001", filesystem=tune_state_stub.file_system())
    with pickle.loads(pickle.dumps(there)).as_directory() as folder:
        assert folder


def test_copies_with_the_same_names_are_one_and_each_new_system_is_its_own() -> None:
    system, other = tune_state_stub.file_system(), tune_state_stub.file_system()
    for each in (system, other):
        each.open_output_stream("/sweep/marker").close()
    system.open_output_stream("/sweep/more").close()
    assert other.get_file_info(["/sweep/more"])[0].type == FileType.NotFound
    copies = [pickle.loads(pickle.dumps(each)).handler.fs for each in (system, system, other)]
    assert copies[0] is copies[1]
    assert copies[2] is not copies[0]
