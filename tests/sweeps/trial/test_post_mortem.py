"""What a PC knows of a process that has ended."""

from __future__ import annotations

from pathlib import Path

from sweeps.trial import post_mortem


def test_it_reads_the_last_words_and_the_count_of_the_kernel(tmp_path: Path) -> None:
    file = tmp_path / "out"
    file.write_text("last words\n")
    assert post_mortem.examine(str(file)) == ("last words\n", post_mortem.oom_kills())
    assert not file.exists()
