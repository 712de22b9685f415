"""The commands of the docs that send a notice reach a server that stands in for the one that they name."""

from __future__ import annotations

import http.server
import json
import re
import shlex
import threading
from collections.abc import Iterator

import pytest

from sweeps.execution.output import notify
from tests.docs.pages import BY_NAME

TEXT = "s: trial 3 failed: 'no' \"disk\" & $HOME; ä"
COMMANDS = [
    words[words.index("--notify-command") + 1]
    for words in map(shlex.split, BY_NAME["results-and-report"].commands)
    if "--notify-command" in words and "curl" in words[words.index("--notify-command") + 1]
]
WEBHOOKS = dict(re.findall(r"^export (\w+)=(\S+)", BY_NAME["results-and-report"].text, flags=re.M))


class Inbox(http.server.BaseHTTPRequestHandler):
    """Keeps what is posted to it."""

    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        server.posted.append((self.path, self.rfile.read(int(self.headers["Content-Length"])).decode()))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


class Server(http.server.ThreadingHTTPServer):
    """Stands in for ntfy, Slack and Discord."""

    posted: list[tuple[str, str]]


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Inbox) as server:
        server.posted = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_the_docs_show_three_servers() -> None:
    assert len(COMMANDS) == 3


@pytest.mark.parametrize("command", COMMANDS, ids=("ntfy", "slack", "discord"))
def test_a_notice_arrives_as_it_is(
    command: str, server: Server, capfd: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    here = f"http://127.0.0.1:{server.server_port}/"
    variables = {name: re.sub(r"https://[^/]+/", here, value) for name, value in WEBHOOKS.items()}
    variables |= {"SWEEP_TEXT": TEXT, "SWEEP_TEXT_JSON": json.dumps(TEXT)}
    notify.send(re.sub(r"https://[^/]+/", here, command), variables)
    assert "failed" not in capfd.readouterr().out
    ((_, body),) = server.posted
    kind = request.node.callspec.id
    if kind == "ntfy":
        assert body == TEXT
    elif kind == "slack":
        assert json.loads(body) == {"text": TEXT}
    else:  # a form
        assert f'name="content"\r\n\r\n{TEXT}\r\n' in body
