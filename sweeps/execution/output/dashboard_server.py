"""Serve optuna-dashboard's page of a sweep, read-only."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from sweeps.common.cli.terminal import say
from sweeps.common.errors import UserError
from sweeps.common.imports import missing
from sweeps.config.sweep_folder import JOURNAL

PORT = 8080
"""The usual one; unless it was asked for, any other serves where it is taken."""
THIS_PC = ("127.0.0.1", "localhost")
Reply = Iterable[bytes]


COUNTED = "its best trial, history and importance are of those that trained to the end"
"""What optuna-dashboard leaves out, since it counts complete trials only."""


@contextlib.contextmanager
def beside(folder: Path, is_wanted: bool) -> Iterator[None]:
    """Serve from a process of its own while the sweep of a folder runs; a failure costs a line."""
    with contextlib.ExitStack() as stack:
        if is_wanted:
            try:
                check_package()
                with listen(THIS_PC[0], None) as server:
                    child = stack.enter_context(_child(folder, server.socket))
                    say(f"dashboard  {server.url} ({COUNTED})")
            except (OSError, UserError) as error:
                say(f"The dashboard could not start: {error}")
            else:
                stack.callback(child.kill)  # it has nothing to lose
        yield


def serve_beside() -> None:
    """What the process of `beside` does: serve at a socket that it inherits, until its stdin is closed."""
    folder, descriptor = Path(sys.argv[1]), int(sys.argv[2])
    threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
    with socket.socket(fileno=descriptor) as listening:
        server = Server(listening.getsockname(), _Handler, bind_and_activate=False)
        server.socket.close()
        server.socket = listening
        server.server_name, server.server_port = listening.getsockname()
        server.setup_environ()
        server.serve(folder)


@contextlib.contextmanager
def _child(folder: Path, listening: socket.socket) -> Iterator[subprocess.Popen[bytes]]:
    code = "from sweeps.execution.output import dashboard_server; dashboard_server.serve_beside()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder), str(listening.fileno())],
        stdin=subprocess.PIPE,  # closed by the kernel when this process is gone, however that ended
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[listening.fileno()],
        start_new_session=True,  # Ctrl-C is for the sweep, which ends in order; this ends with it
    ) as child:
        yield child


class Server(ThreadingMixIn, WSGIServer):
    """A thread per request: a browser sends many at once."""

    daemon_threads = True
    request_queue_size = 64  # those that come before all is imported wait

    @property
    def url(self) -> str:
        return f"http://{self.server_address[0]!s}:{self.server_port}"

    def serve(self, folder: Path) -> None:
        """Show the sweep of a folder until the process ends.

        Raises:
            UserError: the record can't be read.
        """
        is_of_this_pc = self.server_address[0] == THIS_PC[0]
        self.set_app(ReadOnly(folder / JOURNAL, THIS_PC if is_of_this_pc else ()))
        self.serve_forever()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that has gone is no error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(WSGIRequestHandler):
    """Logs no request."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


def check_package() -> None:
    """Refuse where optuna-dashboard is not installed."""
    if fault := missing("optuna_dashboard", "dashboard"):
        raise UserError(fault)


def listen(host: str, port: int | None) -> Server:
    """A server that has its port: the one that was asked for, else the usual one, else any.

    Raises:
        UserError: there is no such host, or the port can't be had.
    """
    for number in (port,) if port is not None else (PORT, 0):
        try:
            return Server((host, number), _Handler)
        except OSError as error:
            if port is not None or number == 0 or isinstance(error, socket.gaierror):
                asked = f"--host {host}" if port is None else f"--port {port}"
                where = host if port is None else f"port {port} of {host}"
                raise UserError(f"{asked}: can't listen on {where}: {error.strerror}") from None
    raise AssertionError


class ReadOnly:
    """optuna-dashboard as a WSGI application that refuses each request to change something.

    Args:
        path: of the record.
        names: by which it may be asked for; () for any. A page of the web can give its own name the address
            of this PC, and would read the record through the browser (DNS rebinding).

    Raises:
        UserError: the record can't be read.
    """

    def __init__(self, path: Path, names: Sequence[str] = ()) -> None:
        self._path = path
        self._names = names
        self._lock = threading.Lock()
        self._open()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Reply:
        """Answer a request."""
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            reason = "this page is read-only: only the sweep writes its record"
            return _refuse("405 Method Not Allowed", reason, start_response)
        name = environ.get("HTTP_HOST", "").rpartition(":")[0] or environ.get("HTTP_HOST", "")
        if self._names and name and name not in self._names:
            reason = f"{name}: this page answers to {' and '.join(self._names)} only"
            return _refuse("403 Forbidden", reason, start_response)
        if environ["PATH_INFO"] in ("", "/", "/dashboard"):
            start_response("302 Found", [("Location", "/dashboard/studies/0")])
            return []
        try:
            with self._lock:
                if not self._journal.is_intact():
                    self._open()
        except OSError as error:
            return _refuse("404 Not Found", f"{self._path}: {error.strerror}", start_response)
        return self._dashboard(environ, start_response)

    def _open(self) -> None:
        from optuna_dashboard import wsgi  # with Optuna, heavy: `beside` is imported by every sweep

        from sweeps.record.journal import DashboardStorage, ReadOnlyJournal

        self._journal = ReadOnlyJournal(self._path)
        self._dashboard: Callable[..., Reply] = wsgi(DashboardStorage(self._journal))


def _refuse(status: str, reason: str, start_response: Callable[..., Any]) -> Reply:
    """As optuna-dashboard answers, so that its pages show the reason."""
    start_response(status, [("Content-Type", "application/json")])
    return [json.dumps({"reason": reason}).encode()]
