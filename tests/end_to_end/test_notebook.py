"""A sweep in the cells of a notebook, by a real kernel: the example of the docs, an interrupt, a restart."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sweeps.config.sweep_folder import JOURNAL
from sweeps.record.record import Record
from tests.docs.pages import BY_NAME

pytest.importorskip("ipykernel", reason="ipykernel is not installed (the extra dev)")
from jupyter_client.manager import KernelManager

ANSWERS_S = 300
FEW = "max_epochs=9, ray_dashboard=False, max_concurrent=2, "


class Kernel:
    """A kernel, and what comes out of a cell."""

    def __init__(self, folder: Path) -> None:
        self.manager = KernelManager(kernel_name="python3")
        environment = {name: value for name, value in os.environ.items() if name != "RAY_AUTH_MODE"}
        self.manager.start_kernel(cwd=str(folder), env=environment)
        self.client = self.manager.blocking_client()
        self.begin()

    def begin(self) -> None:
        """Wait for a kernel that was started."""
        self.client.stop_channels()
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=ANSWERS_S)

    def start(self, code: str) -> str:
        """Begin to run a cell; its number."""
        return str(self.client.execute(code))

    def outputs(self, cell: str) -> list[dict[str, Any]]:
        """All that comes out of a cell, until it has ended."""
        found: list[dict[str, Any]] = []
        while True:
            message = self.client.get_iopub_msg(timeout=ANSWERS_S)
            kind, content = message["msg_type"], message["content"]
            if message["parent_header"].get("msg_id") != cell:
                continue
            if kind == "status" and content["execution_state"] == "idle":
                return found
            found.append({"kind": kind, **content})

    def run(self, code: str) -> list[dict[str, Any]]:
        return self.outputs(self.start(code))


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    """A kernel in a folder of its own."""
    made = Kernel(tmp_path)
    yield made
    made.client.stop_channels()
    made.manager.shutdown_kernel(now=True)


def text_of(outputs: list[dict[str, Any]]) -> str:
    """What was printed, and what was raised or shown as the value."""
    printed = [each["text"] for each in outputs if each["kind"] == "stream"]
    values = [each["data"]["text/plain"] for each in outputs if each["kind"] == "execute_result"]
    return "".join(printed) + "".join(values + [each["ename"] for each in outputs if each["kind"] == "error"])


@pytest.mark.long
def test_the_example_of_the_docs_shows_its_trials_and_goes_on_after_an_interrupt_and_a_restart(
    kernel: Kernel, tmp_path: Path
) -> None:
    define, call, best, *_ = BY_NAME["notebooks"].blocks("python")
    call = call.replace("num_trials=12,", f"num_trials=4, {FEW}")
    slow = define.replace("for epoch in trial.epochs:", "for epoch in trial.epochs:\n        time.sleep(1)")
    # `sweeps` is imported after Ray, as isort has it.
    assert text_of(kernel.run("import os, time\nfrom ray import tune\n" + slow)).count("Error") == 0
    cell = kernel.start(call)
    folder = tmp_path / "results" / "first"
    wait_for_epochs(folder)
    kernel.manager.interrupt_kernel()
    outputs = kernel.outputs(cell)
    text = text_of(outputs)
    assert text.endswith("KeyboardInterrupt"), text
    assert "Interrupt the cell again to stop at once" in text
    assert "In Python  sweeps.run(..., resume='first') goes on" in text
    assert str(Record.read(folder).about["outcome"]) == "interrupted"
    tables = [each for each in outputs if each["kind"] in ("display_data", "update_display_data")]
    assert [each["kind"] for each in tables[:2]] == ["display_data", "update_display_data"]
    assert "<pre" in tables[-1]["data"]["text/html"]
    assert "val_acc" in tables[-1]["data"]["text/plain"]
    assert "\x1b" not in text

    kernel.manager.restart_kernel(now=True)
    kernel.begin()
    # Another function under this name is not taken for the same.
    assert "UserError" in text_of(kernel.run(define + "\nsweeps.run(train, resume='first')"))
    resumed = kernel.run("sweep = sweeps.run(resume='first')\n" + best)
    assert "'hidden':" in text_of(resumed), text_of(resumed)
    assert Record.read(folder).about["outcome"] == "finished"
    # A second sweep in the same kernel.
    second = call.replace('"first"', '"second"').replace("num_trials=4", "num_trials=2")
    assert "'lr':" in text_of(kernel.run(second + "\n" + best))


@pytest.mark.long
def test_a_kernel_that_is_killed_leaves_a_sweep_that_has_ended_in_order(
    kernel: Kernel, tmp_path: Path
) -> None:
    slow = "def train(params, trial):\n    for epoch in trial.epochs:\n        time.sleep(1)\n"
    slow += "        trial.report({'val_acc': params.lr})\n"
    call = (
        f"sweeps.run(train, space={{'lr': '0..1'}}, {FEW} metric='val_acc:max', num_trials=2, name='first')"
    )
    kernel.start(f"import sweeps, time\n{slow}\n{call}")
    folder = tmp_path / "results" / "first"
    wait_for_epochs(folder)
    kernel.manager.shutdown_kernel(now=True)
    ends = time.monotonic() + ANSWERS_S
    while str(Record.read(folder).about["outcome"]) != "interrupted":
        assert time.monotonic() < ends
        time.sleep(0.2)


def wait_for_epochs(folder: Path) -> None:
    """Wait until trials of a sweep have reported."""
    ends = time.monotonic() + ANSWERS_S
    while not ((folder / JOURNAL).is_file() and Record.read(folder).has_epochs):
        assert time.monotonic() < ends
        time.sleep(0.2)


@pytest.mark.long
def test_a_cell_that_can_not_be_shown_leaves_a_sweep_that_has_ended_in_order(
    kernel: Kernel, tmp_path: Path
) -> None:
    slow = "def train(params, trial):\n    for epoch in trial.epochs:\n        time.sleep(1)\n"
    slow += "        trial.report({'val_acc': params.lr})\n"
    fails = (
        "from IPython import display\nshown = []\n"
        "def update_display(*_, **__):\n    shown.append(1)\n"
        "    if len(shown) > 5:\n        raise OSError('the display is gone')\n"
        "display.update_display = update_display\n"
    )
    call = (
        f"sweeps.run(train, space={{'lr': '0..1'}}, {FEW} metric='val_acc:max', num_trials=2, name='first')"
    )
    text = text_of(kernel.run(f"import sweeps, time\n{fails}\n{slow}\n{call}"))
    assert text.endswith("OSError"), text
    ends = time.monotonic() + ANSWERS_S
    while str(Record.read(tmp_path / "results" / "first").about["outcome"]) != "interrupted":
        assert time.monotonic() < ends
        time.sleep(0.2)
