"""A worker group of processes that already run: they meet for a trial, and leave each other after it.

The first worker opens a store at a free port and sends its address to the other workers, which connect to it.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import traceback
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psutil
import torch
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment

from sweeps.common.errors import CannotTrain, first_line
from sweeps.training import torch_internals

_distributed: Any = torch.distributed  # its stubs lack TCPStore, which its documentation has
CONNECT_S = 30
"""Within which a worker must connect to the first worker's store."""
JOIN_S = 300
"""Within which all workers must join, once they are connected; PyTorch's own default."""
INTERFACES = {"GLOO_SOCKET_IFNAME": "{}", "NCCL_SOCKET_IFNAME": "={}"}
"""Variables in which gloo and NCCL read their network interface (`=`: exactly that name)."""
OF_NCCL = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "2",
    "TORCH_NCCL_RETHROW_CUDA_ERRORS": "0",
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "250",
}
"""PyTorch's thread that watches NCCL aborts what hangs or has failed, but does not end the process, which is
to tell why: https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html"""
_LOST = (
    *("onnection closed by peer", "onnection reset by peer", "remote process exited", "onnect timeout"),
    "communicator was aborted",
)
"""Parts of the errors of gloo and NCCL when the process of another worker has ended."""


@dataclass(frozen=True)
class Rendezvous:
    """Where a worker group meets, and the rank of one worker in it."""

    rank: int
    workers: int
    address: str
    """IP address of the first worker's PC."""
    port: int
    """Port of the first worker's store."""

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables as torchrun sets them; each worker counts as a node with one device."""
        return {
            "MASTER_ADDR": self.address,
            "MASTER_PORT": str(self.port),
            "RANK": str(self.rank),
            "GROUP_RANK": str(self.rank),
            "WORLD_SIZE": str(self.workers),
            "LOCAL_RANK": "0",
        }


class WorkerGroupEnvironment(TorchElasticEnvironment):
    """This process as a member of a worker group; Lightning reads its rank as under torchrun."""

    def __init__(self, rendezvous: Rendezvous, store: Any) -> None:
        super().__init__()
        self.rendezvous = rendezvous
        self._store: Any = store

    @classmethod
    def open(cls, address: str, workers: int) -> WorkerGroupEnvironment:
        """Open the store as the first worker, whose PC has this IP address."""
        store = _distributed.TCPStore(address, 0, is_master=True, wait_for_workers=False)
        return cls(Rendezvous(0, workers, address, store.port), store)

    @classmethod
    def connect(cls, rendezvous: Rendezvous) -> WorkerGroupEnvironment:
        """Connect to the store as another worker.

        Raises:
            CannotTrain: the first worker can't be reached.
        """
        address, port, timeout = rendezvous.address, rendezvous.port, timedelta(seconds=CONNECT_S)
        try:
            store = _distributed.TCPStore(address, port, is_master=False, timeout=timeout)
        except _distributed.DistError as error:
            raise CannotTrain(
                f"a worker on {socket.gethostname()} could not connect to the first worker at "
                f"{address}:{port} within {CONNECT_S} s: {first_line(error)}. Check that no firewall between "
                "the PCs closes the ports that are free"
            ) from None
        store.set_timeout(timedelta(seconds=JOIN_S))
        return cls(rendezvous, store)

    def join(self, address: str) -> None:
        """Form the process group; all workers call it together.

        Args:
            address: IP address of this PC, by which the other workers reach it.
        """
        assert self._store is not None, "it has left the group"
        use_interface_of(address)
        for name, value in OF_NCCL.items():
            os.environ.setdefault(name, value)
        os.environ.update(self.rendezvous.variables)
        torch.distributed.init_process_group(
            "nccl" if torch.cuda.is_available() else "gloo",
            store=self._store,
            rank=self.rendezvous.rank,
            world_size=self.rendezvous.workers,
        )

    def abort(self) -> None:
        """Break off what this worker and NCCL still compute together with the others, from any thread: each
        later operation raises. gloo can't do so, only the end of another worker's process ends its wait."""
        if not torch.distributed.is_initialized() or torch.distributed.get_backend() != "nccl":
            return
        # At the same time: one may wait for what another one still computes.
        groups = torch_internals.process_groups()
        threads = [threading.Thread(target=group.abort, daemon=True) for group in groups]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def leave(self) -> None:
        """Close the connections, which ends the wait of another worker. Can be called again."""
        # NCCL's groups are destroyed in all workers of a PC together, or in none: each waits for the others.
        # That would be for ever where one has failed. Once aborted they wait for nobody.
        # https://github.com/pytorch/pytorch/pull/180611
        self.abort()
        try:
            end_groups()
        except RuntimeError:  # gloo's, NCCL's or CUDA's; the reason why a trial has failed must stand
            traceback.print_exc()
        self._store = None
        for name in self.rendezvous.variables:
            os.environ.pop(name, None)


def end_groups() -> None:
    """End the process groups of this process, with those that DeepSpeed keeps of the workers of its run."""
    deepspeed_comm: Any = sys.modules.get("deepspeed.comm")
    if torch.distributed.is_initialized() and deepspeed_comm and deepspeed_comm.is_initialized():
        deepspeed_comm.destroy_process_group()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def use_interface_of(address: str) -> None:
    """Let gloo and NCCL use the network interface with this address, unless the user has set another one.

    By default gloo takes that of the host name, which on Debian is 127.0.1.1, and NCCL the first one:
    https://docs.pytorch.org/docs/stable/distributed.html#common-environment-variables
    """
    for name, addresses in psutil.net_if_addrs().items():
        if any(each.address == address for each in addresses):
            for variable, form in INTERFACES.items():
                os.environ.setdefault(variable, form.format(name))


def is_lost_connection(text: str) -> bool:
    """Whether an error only says that the process of another worker has ended."""
    return any(words in text for words in _LOST)
