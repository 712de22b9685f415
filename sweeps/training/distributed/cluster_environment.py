"""A worker group of processes that already run, and meet at a store on the PC of the first one."""

from __future__ import annotations

import os
import socket
import sys
from datetime import timedelta
from typing import Any

import psutil
import torch
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment

from sweeps.common.errors import CannotTrain, first_line

_distributed: Any = torch.distributed  # its stubs lack TCPStore, which its documentation has
CONNECT_S = 30
"""Within which a worker must connect to the first worker's store."""
INTERFACES = {"GLOO_SOCKET_IFNAME": "{}", "NCCL_SOCKET_IFNAME": "={}"}
"""Variables in which gloo and NCCL read their network interface (`=`: exactly that name)."""
OF_NCCL = {
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "2",
    "TORCH_NCCL_RETHROW_CUDA_ERRORS": "0",
    "TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC": "250",
}
"""PyTorch's thread that watches NCCL aborts what hangs or has failed, but does not end the process, which is
to tell why: https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html"""


def open_store(address: str) -> Any:
    """A store where the workers of a group meet, at a free port of this PC."""
    return _distributed.TCPStore(address, 0, is_master=True, wait_for_workers=False)


class WorkerGroupEnvironment(TorchElasticEnvironment):
    """This process as a worker of a group; Lightning reads its rank as under torchrun.

    Args:
        address: IP address of the PC of the first worker.
        port: of the store there.
        own_address: IP address of this PC, by which the other workers reach it.

    Raises:
        CannotTrain: the store can't be reached.
    """

    def __init__(self, rank: int, workers: int, address: str, port: int, own_address: str) -> None:
        super().__init__()
        self._rank, self._workers, self._own_address = rank, workers, own_address
        try:
            timeout = timedelta(seconds=CONNECT_S)
            self._store = _distributed.TCPStore(address, port, is_master=False, timeout=timeout)
        except _distributed.DistError as error:
            raise CannotTrain(
                f"a worker on {socket.gethostname()} could not connect to the first worker at "
                f"{address}:{port} within {CONNECT_S} s: {first_line(error)}. Check that no firewall between "
                "the PCs closes the ports that are free"
            ) from None
        self._store.set_timeout(timedelta(minutes=5))  # for all to join; PyTorch's own default
        self.variables = {
            "MASTER_ADDR": address,
            "MASTER_PORT": str(port),
            "RANK": str(rank),
            "GROUP_RANK": str(rank),
            "WORLD_SIZE": str(workers),
            "LOCAL_RANK": "0",
        }
        """As torchrun sets them; each worker counts as a node with one device."""

    def join(self) -> None:
        """Form the process group; all workers call it together."""
        use_interface_of(self._own_address)
        for name, value in OF_NCCL.items():
            os.environ.setdefault(name, value)
        os.environ.update(self.variables)
        backend = "nccl" if torch.cuda.is_available() else "gloo"
        torch.distributed.init_process_group(
            backend, store=self._store, rank=self._rank, world_size=self._workers
        )


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
