"""What a PC knows of a process that has ended."""

from __future__ import annotations

from pathlib import Path

from sweeps.trial import post_mortem
from tests.support import memory_groups


def test_it_reads_the_last_words_and_the_count_of_the_kernel(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text("last words\n")
    assert post_mortem.examine(str(file)) == ("last words\n", post_mortem.oom_kills())
    assert not file.exists()


def test_the_kernel_counts_a_process_that_it_kills_for_want_of_memory() -> None:
    before = post_mortem.oom_kills()
    memory_groups.exhaust()
    assert post_mortem.oom_kills() > before
