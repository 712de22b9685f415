"""The workers of one trial that somebody has started already, one a process: how they meet, and part again.

Processes that live longer than a trial meet anew for each. Their first one opens a store at a port that is
free, and tells the others, who find each other through it.
"""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import psutil
import torch
from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment

from sweeps.common.errors import CannotTrain, first_line

_distributed: Any = torch.distributed  # its stubs lack TCPStore, which its documentation has
REACHES_S = 30
"""That a worker may take to reach the first one's PC."""
MEETS_S = 300
"""That workers may take to meet, once all can reach the first one; PyTorch's own measure."""
INTERFACES = {"GLOO_SOCKET_IFNAME": "{}", "NCCL_SOCKET_IFNAME": "={}"}
"""Where gloo and NCCL read which network card to use (`=`: that very one)."""
_LOST = ("onnection closed by peer", "onnection reset by peer", "remote process exited", "onnect timeout")
"""What gloo and NCCL say to a worker when another one has gone: that is why."""


@dataclass(frozen=True)
class Seat:
    """A worker's place in its gang."""

    rank: int
    workers: int
    address: str
    """Of the PC of the first one."""
    port: int
    """Of its store."""


class Gang(ClusterEnvironment):
    """This process as one of a gang; for Lightning, which starts no process then, and asks nobody else.

    Args:
        seat: its place.
        store: where the workers find each other.
    """

    def __init__(self, seat: Seat, store: Any) -> None:
        super().__init__()
        self.seat = seat
        self._store: Any = store

    @classmethod
    def opened(cls, address: str, workers: int) -> Gang:
        """The gang of the first worker, whose PC has this address."""
        store = _distributed.TCPStore(address, 0, is_master=True, wait_for_workers=False)
        return cls(Seat(0, workers, address, store.port), store)

    @classmethod
    def found(cls, seat: Seat) -> Gang:
        """The gang of another worker.

        Raises:
            CannotTrain: the first one can't be reached.
        """
        patience = timedelta(seconds=REACHES_S)
        try:
            store = _distributed.TCPStore(seat.address, seat.port, is_master=False, timeout=patience)
        except _distributed.DistError as error:
            raise CannotTrain(
                f"a worker on {socket.gethostname()} can't reach the first one at {seat.address}:{seat.port} "
                f"within {REACHES_S} s (a firewall between the PCs? workers talk over ports that are free): "
                f"{first_line(error)}"
            ) from None
        store.set_timeout(timedelta(seconds=MEETS_S))
        return cls(seat, store)

    def seat_of(self, rank: int) -> Seat:
        """The place of another worker."""
        return replace(self.seat, rank=rank)

    def join(self, here: str) -> None:
        """Meet the others: all call it together.

        Args:
            here: address of this PC, by which the others reach it.
        """
        assert self._store is not None, "it has parted"
        use_card_of(here)
        os.environ.update(self._variables())
        backend = "nccl" if torch.cuda.is_available() else "gloo"
        seat = self.seat
        torch.distributed.init_process_group(
            backend, store=self._store, rank=seat.rank, world_size=seat.workers
        )

    def part(self) -> None:
        """Close the connections; one that waits for this worker hears of it. Can be called again."""
        if torch.distributed.is_initialized():
            if "deepspeed" in sys.modules:  # it keeps groups of its own, of the workers that it knew
                import deepspeed.comm

                if deepspeed.comm.is_initialized():
                    deepspeed.comm.destroy_process_group()
            if torch.distributed.is_initialized():
                torch.distributed.destroy_process_group()
        self._store = None
        for name in self._variables():
            os.environ.pop(name, None)

    def _variables(self) -> dict[str, str]:
        """What DeepSpeed reads."""
        seat = self.seat
        return {
            "MASTER_ADDR": seat.address,
            "MASTER_PORT": str(seat.port),
            "RANK": str(seat.rank),
            "WORLD_SIZE": str(seat.workers),
            "LOCAL_RANK": "0",
        }

    @property
    def creates_processes_externally(self) -> bool:
        """They are there."""
        return True

    @property
    def main_address(self) -> str:
        """Of the first worker's PC."""
        return self.seat.address

    @property
    def main_port(self) -> int:
        """Of its store."""
        return self.seat.port

    @staticmethod
    def detect() -> bool:
        """It is never found by itself."""
        return False

    def world_size(self) -> int:
        """Workers."""
        return self.seat.workers

    def set_world_size(self, size: int) -> None:
        """It is settled."""

    def global_rank(self) -> int:
        """Of this worker."""
        return self.seat.rank

    def set_global_rank(self, rank: int) -> None:
        """It is settled."""

    def local_rank(self) -> int:
        """Each worker sees its own GPU alone."""
        return 0

    def node_rank(self) -> int:
        """Each worker is a node to Lightning, wherever it stands."""
        return self.seat.rank


def use_card_of(address: str) -> None:
    """Let gloo and NCCL talk over the network card with this address; what the user has set stays.

    Left alone gloo takes the card of the PC's own name, which on Debian is 127.0.1.1, and NCCL the first one:
    https://docs.pytorch.org/docs/stable/distributed.html#common-environment-variables
    """
    cards = psutil.net_if_addrs().items()
    for card in (name for name, known in cards if any(each.address == address for each in known)):
        for variable, form in INTERFACES.items():
            os.environ.setdefault(variable, form.format(card))


def says_that_another_is_lost(text: str) -> bool:
    """Whether an error is but the echo of another worker's end."""
    return any(words in text for words in _LOST)
