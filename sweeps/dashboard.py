"""Show a sweep in the browser, while it runs or after: `sweeps dashboard NAME`

optuna-dashboard over the record, which it can't write. Exit status: 2, a mistake in what was asked; 130,
Ctrl-C, which is how it ends.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from sweeps.common.cli import parser as cli_parser
from sweeps.common.cli.dispatch import status_of
from sweeps.common.errors import UserError
from sweeps.common.formatting import shown_path
from sweeps.config.sweep_folder import NEWEST_HELP, newest_sweep, no_sweep, sweep_named
from sweeps.execution.output.dashboard_server import COUNTED, PORT, THIS_PC, check_package, listen


def main(arguments: Sequence[str] | None = None) -> int:
    """The whole program; the exit status."""
    return status_of(lambda: dashboard(*parse(arguments)), interrupted="The dashboard has ended.")


def parse(arguments: Sequence[str] | None = None) -> tuple[Path, str, int | None]:
    """Folder of the sweep, host and port.

    Raises:
        UserError: what is wrong.
    """
    parser = cli_parser.Parser(
        prog="sweeps dashboard",
        usage="%(prog)s [NAME] [--port N] [--host HOST]",
        description="Show the trials of a sweep in the browser, while it runs or after.",
        examples=["", "first --port 8081"],
    )
    parser.add_argument(
        "folder",
        nargs="?",
        metavar="NAME",
        help=NEWEST_HELP,
    )
    cli_parser.add(parser, "port", int | None, f"Port (default: {PORT}; any other if that is in use).", None)
    reach = "Name or address to listen at. Everyone who can reach it can see the dashboard."
    cli_parser.add(parser, "host", str, reach, THIS_PC[0], "HOST")
    values = parser.values_of(arguments, "; give one sweep, by its name")
    if values.port is not None and not 0 <= values.port <= 65535:
        raise UserError(f"--port {values.port}: must be from 0 (any that is free) to 65535")
    folder = newest_sweep() if values.folder is None else sweep_named(values.folder)
    if (why := no_sweep(folder)) is not None:
        raise UserError(why)
    return folder.resolve(), values.host, values.port


def dashboard(folder: Path, host: str, port: int | None) -> int:
    """Serve until Ctrl-C.

    Raises:
        UserError: the record can't be read, or the port not be had.
    """
    check_package()
    print(f"Reading {shown_path(folder)}", end="", flush=True)
    from sweeps.record import status
    from sweeps.record.journal import RecordUnreadable
    from sweeps.record.record import Record

    try:
        record = Record.read(folder)
    except (OSError, RecordUnreadable) as error:
        print()
        raise UserError(str(error)) from None
    finished = sum(trial.status == "finished" for trial in record.searched)
    print(
        f": of all trials, the best is {status.best(record)}. Of the page, {COUNTED} "
        f"({finished:,} of {len(record.searched):,})"
    )
    with listen(host, port) as server:
        if port is None and server.server_port != PORT:
            instead = f"port {server.server_port} is used instead"
            print(f"Port {PORT} is in use; {instead} (--port N chooses one)", flush=True)
        if host not in THIS_PC:
            print(f"Everyone who can reach {host} can see the dashboard: there is no password", flush=True)
        print(f"{server.url}  shows {shown_path(folder)}; press Ctrl-C to end it", flush=True)
        server.serve(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
