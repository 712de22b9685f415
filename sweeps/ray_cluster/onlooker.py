"""A process that joins a Ray to look at it, and takes nothing there."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import ray
from ray.exceptions import AuthenticationError

from sweeps.common.errors import UserError, first_line
from sweeps.ray_start import ray_auth, ray_connection


@contextlib.contextmanager
def joined(address: str) -> Iterator[str]:
    """Be a part of the cluster; the address by which Ray's own clients reach its head.

    Raises:
        UserError: no cluster answers, or it does not accept the token of this PC.
    """
    ray_connection.refuse_silent(address)
    try:
        with ray_connection.quietly():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        yield ray.get_runtime_context().gcs_address
    except AuthenticationError as error:
        raise UserError(f"--address {address}: {first_line(error)} {ray_auth.COPY}") from None
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"--address {address}: {ray_connection.why_not(error)}") from None
    finally:
        ray_connection.shut_down(ray)
