"""Show all sweeps in the browser: `sweeps dashboard`

The page reads the records: it may be started and ended at any time, and no sweep needs it. Exit status: 0,
one like it is open already, or it has ended by --until-unused; 2, a mistake in what was asked; 130, Ctrl-C,
which is how it ends otherwise.
"""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sweeps.common.cli import json_output
from sweeps.common.cli import parser as cli_parser
from sweeps.common.cli.dispatch import status_of
from sweeps.common.errors import UserError
from sweeps.common.formatting import shown_path
from sweeps.config.sweep_folder import RESULTS, no_sweep, sweep_named, sweeps_in

PORT = 8787


@dataclass(frozen=True)
class Asked:
    """What was asked for."""

    folders: Sequence[Path]
    """Of sweeps, or sweeps."""
    opened: Path | None
    """The sweep that the browser opens; None: the list."""
    host: str
    port: int
    is_read_only: bool
    opens_browser: bool
    is_until_unused: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return status_of(lambda: dashboard(parse(arguments)), interrupted="The page has ended.")


def parse(arguments: Sequence[str] | None = None) -> Asked:
    """What was asked for."""
    parser = cli_parser.Parser(
        prog="sweeps dashboard",
        usage="%(prog)s [NAME|FOLDER ...] [flags]",
        description=f"Show all sweeps of this project ({RESULTS}/) and of the folders given in the browser. "
        "A sweep by its name is opened at once.",
        examples=["", "first", "/mnt/share/results --port 9000"],
    )
    help_ = f"A sweep by its name in {RESULTS}/ or its folder, or a folder of sweeps."
    parser.add_argument("folders", nargs="*", metavar="NAME", help=help_)
    cli_parser.add(parser, "port", int, "Port; the next free one where it is taken.", PORT)
    reach = "Name or address to listen at. Who reaches it needs the token, and could read it on the way."
    cli_parser.add(parser, "host", str, reach, "127.0.0.1", "HOST")
    cli_parser.add(parser, "read_only", bool, "Only show: no button, and nothing can be changed.", False)
    cli_parser.add(parser, "browser", bool, "Open the browser, where there is one.", True)
    until = "End by itself 30 s after the last sweep, unless somebody looks at it or `sweeps up` is there."
    cli_parser.add(parser, "until_unused", bool, until, False)
    values = parser.values_of(arguments)
    if not 0 <= values.port <= 65535:
        raise UserError(f"--port {values.port}: must be from 0 (any that is free) to 65535")
    given = [sweep_named(each) for each in values.folders]
    for folder in given:
        if not sweeps_in(folder):
            raise UserError(no_sweep(folder) or "")
    results = Path(RESULTS).resolve()
    # A sweep in results/ is shown with the others there.
    others = [folder.resolve() for folder in given if folder.resolve().parent != results]
    sweeps = [folder.resolve() for folder in given if no_sweep(folder) is None]
    return Asked(
        [results, *(folder for folder in others if folder != results)],
        sweeps[0] if len(given) == 1 and sweeps else None,
        values.host,
        values.port,
        values.read_only,
        values.browser,
        values.until_unused,
    )


def dashboard(asked: Asked) -> int:
    """Serve until Ctrl-C, unless a page like that is open already.

    Raises:
        UserError: the port can't be had, or the token not be read.
    """
    from sweeps.page import access, pc_reporter, server
    from sweeps.page.page_context import PageContext

    token, ray = access.token_of_user(is_read_only=asked.is_read_only), pc_reporter.named()
    for each in server.open_pages():
        if each.shows(asked.folders, asked.host, is_read_only=asked.is_read_only, ray=ray):
            _tell(asked, each.url, token, [*map(Path, each.folders)])
            print(f"is open already, in process {each.pid}", flush=True)
            return 0
    with server.listening_socket(asked.host, asked.port) as listening:
        page = PageContext(asked.folders, token, asked.host, is_read_only=asked.is_read_only)
        url = server.url_of(listening, asked.host)
        note = server.OpenPage(
            url=url,
            pid=os.getpid(),
            folders=[str(folder) for folder in asked.folders],
            host=asked.host,
            is_read_only=asked.is_read_only,
            ray=ray,
        )
        with server.noted(note):
            _tell(asked, url, token, asked.folders)
            taken = (
                f"port {asked.port} is taken; " if asked.port not in (0, listening.getsockname()[1]) else ""
            )
            shown = ", ".join(map(shown_path, asked.folders))
            print(f"{taken}it shows {shown}; press Ctrl-C to end it", flush=True)
            unused = server.Usage(page).has_ended if asked.is_until_unused else None
            asyncio.run(server.serve(server.app_of(page), listening, unused))
    return 0


def _tell(asked: Asked, url: str, token: str, folders: Sequence[Path]) -> None:
    """Print the address of the page of these folders, and open it in the browser, where there is one."""
    from sweeps.page import access
    from sweeps.page.sweep_list import SweepList, path_of

    key = None if asked.opened is None else SweepList(folders).key_of(asked.opened)
    path = "/" if key is None else path_of(key)
    address = f"{url}{path}?{access.TOKEN_PARAMETER}={token}"
    print(address, flush=True)
    json_output.answer(url=address)
    json_output.write("serving", url=address, folders=[str(folder) for folder in asked.folders])
    if asked.opens_browser and _has_browser():
        webbrowser.open(f"{url}{path}?{access.TOKEN_PARAMETER}={access.one_time_code(token)}")


def _has_browser() -> bool:
    """Whether a browser with windows can be opened here; one of the terminal would take that."""
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))


if __name__ == "__main__":
    sys.exit(main())
