"""A server that answers W&B's own uploader as far as that asks, and keeps the runs that it is sent."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ENTITY = "me"


@dataclass
class Run:
    """What the server has of a run."""

    display_name: str = ""
    group: str = ""
    history: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Line to its content."""
    exit_codes: list[int] = field(default_factory=list)

    @property
    def steps(self) -> list[int]:
        """The epochs, in the order of the lines."""
        return [self.history[line]["_step"] for line in sorted(self.history)]


class Server(ThreadingHTTPServer):
    """The runs by id."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.runs: dict[str, Run] = {}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """W&B closes connections as it likes."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def ask(self, query: str, given: dict[str, Any]) -> dict[str, Any]:
        """The data that answers a query of GraphQL."""
        if query == "RunResumeStatus":
            return {"model": self._model(given["name"])}
        if query == "UpsertBucket":
            run = self.runs.setdefault(given["name"], Run())
            run.display_name = given.get("displayName") or run.display_name
            run.group = given.get("groupName") or run.group
            bucket = {
                "id": "1",
                "name": given["name"],
                "displayName": run.display_name,
                "project": self._project(),
            }
            return {"upsertBucket": {"bucket": bucket, "inserted": True}}
        if query == "CreateRunFiles":
            files = [{"name": name, "uploadUrl": f"{self.url}/upload/{name}"} for name in given["files"]]
            return {"createRunFiles": {"runID": "1", "uploadHeaders": [], "files": files}}
        return {}

    def stream(self, id: str, content: dict[str, Any]) -> None:
        """Keep what is sent of a run."""
        run = self.runs.setdefault(id, Run())
        sent = content.get("files", {}).get("wandb-history.jsonl", {"offset": 0, "content": []})
        for line, text in enumerate(sent["content"], start=sent["offset"]):
            run.history[line] = json.loads(text)
        if content.get("complete"):
            run.exit_codes.append(content["exitcode"])

    def _model(self, id: str) -> dict[str, Any]:
        run = self.runs.get(id)
        if run is None:
            return {**self._project(), "bucket": None}
        tail = [json.dumps(run.history[line]) for line in sorted(run.history)[-1:]]
        lines = {"historyLineCount": len(run.history), "eventsLineCount": 0, "logLineCount": 0}
        tails = {"historyTail": json.dumps(tail), "eventsTail": "[]", "summaryMetrics": "{}", "config": "{}"}
        names = {"id": "1", "name": id, "displayName": run.display_name, "tags": [], "notes": ""}
        return {**self._project(), "bucket": {**names, **lines, **tails, "wandbConfig": "{}"}}

    def _project(self) -> dict[str, Any]:
        return {"id": "1", "name": "sweeps", "entity": {"id": "1", "name": ENTITY}}


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        answer: dict[str, Any] = {}
        if self.path == "/graphql":
            asked = json.loads(body)
            name = re.search(r"(?:query|mutation)\s+(\w+)", asked["query"])
            answer = {"data": self.server.ask(name[1] if name else "", asked.get("variables") or {})}
        elif found := re.fullmatch(r"/files/[^/]+/[^/]+/([^/]+)/file_stream", self.path):
            self.server.stream(found[1], json.loads(body))
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_PUT = do_GET = do_POST

    def log_message(self, format: str, *values: Any) -> None:
        """Nothing."""


@contextlib.contextmanager
def served() -> Iterator[Server]:
    """A server in a thread of this process."""
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
