"""Join the running cluster for a few questions."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from sweeps.common import ray_connection
from sweeps.common.errors import UserError

TOKEN = Path("~/.ray/auth_token")


@contextlib.contextmanager
def joined(address: str) -> Iterator[str]:
    """As long as the block lasts; the address by which Ray's own clients reach the head.

    Raises:
        UserError: no cluster answers.
    """
    ray_connection.set_environment({"RAY_USAGE_STATS_ENABLED": "0"})
    if TOKEN.expanduser().is_file():  # Ray 2.60 shows it by itself at the address `auto` alone
        ray_connection.set_environment({"RAY_AUTH_MODE": "token"})
    import ray

    ray_connection.refuse_silent(address)
    try:
        with ray_connection.quietly():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        yield ray.get_runtime_context().gcs_address
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"--address {address}: {ray_connection.why_not(error)}") from None
    finally:
        ray.shutdown()
