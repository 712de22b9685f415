"""A dashboard that serves the record of a sweep, and what it answers."""

from __future__ import annotations

import contextlib
import json
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from optuna.distributions import FloatDistribution

from sweeps.execution.output import dashboard_server
from sweeps.record.record import Record
from sweeps.record.trials import Status
from tests.conftest import propose

LR = {"lr": FloatDistribution(0.0, 1.0)}


def sweep(folder: Path) -> Record:
    """A trial of each end, and one that trains."""
    record = Record.create(folder, "s", "max", {"sweep": "s", "metric": "acc", "trainable": "t"})
    trials: list[tuple[Status, list[float], str]] = [
        ("finished", [0.1, 0.3, 0.2], ""),
        ("pruned", [0.1, 0.2], ""),
        ("failed", [0.5], "RuntimeError: the toy broke"),
        ("diverged", [0.4, float("nan")], "acc was nan in epoch 2"),
        ("unfinished", [0.6], ""),
    ]
    for number, (status, scores, reason) in enumerate(trials):
        propose(record, {"lr": number / 10}, LR)
        for epoch, score in enumerate(scores, start=1):
            record.report(number, epoch, score, {"acc": score}, 1.0)
        if status != "unfinished":
            record.end(number, status, reason)
    return record


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The URL of a server in a thread of this process."""
    server = dashboard_server.listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.serve, args=(folder,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def ask(url: str, method: str = "GET", **content: Any) -> Any:
    data = json.dumps(content).encode() if content else None
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def shown(url: str) -> dict[str, Any]:
    study: dict[str, Any] = ask(f"{url}/api/studies/0")
    return study


def attributes(trial: dict[str, Any]) -> dict[str, str]:
    return {attribute["key"]: attribute["value"] for attribute in trial["user_attrs"]}
