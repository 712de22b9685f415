"""What training changes in its process, which tests of other files share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _process_as_before() -> Iterator[None]:
    """Take back what training sets in the process: threads, and by ddp a process group and its variables."""
    threads, variables = torch.get_num_threads(), dict(os.environ)
    yield
    torch.set_num_threads(threads)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    for name in os.environ.keys() - variables.keys():
        del os.environ[name]
    os.environ.update(variables)
