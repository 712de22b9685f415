"""Slurm on the lab's PCs: all of them are nodes, the first one is the controller, too."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.support.lab import Lab, wait_until

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "scontrol")
CONF = """
ClusterName=lab
SlurmctldHost={controller.name}({controller.address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# How long a job that was requeued waits, 2 minutes by default.
AuthInfo=cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir=/run/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=5,bf_interval=5
ReturnToService=2
SlurmdTimeout=30
SlurmdParameters=config_overrides
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
"""slurm.conf, but for the nodes."""
NODE_BEGINS = """
set -e
mkdir -p -m 755 /run/munge /run/slurmd
munged --force --key-file="$1" --socket=/run/munge/munge.socket.2 --pid-file=/run/munge/munged.pid \
    --log-file=/run/munge/log --seed-file=/run/munge/seed
[ "$2" = node ] || slurmctld
slurmd
"""
OVER = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")


def why_not() -> str | None:
    """Why there can be no Slurm here; None: there can."""
    path = "/usr/bin:/usr/sbin:/bin:/sbin"
    missing = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    return (
        f"Slurm is not installed: no {', '.join(missing)} (apt-get install slurm-wlm munge)"
        if missing
        else None
    )


class Slurm:
    """Slurm's controller and nodes.

    Args:
        lab: with PCs, which see the folder.
        folder: of Slurm's settings and logs.
        cpus: of each node, as Slurm hands them out.
    """

    def __init__(self, lab: Lab, folder: Path, cpus: int = 2) -> None:
        self.pcs, self._folder = lab.pcs, folder
        self._env = {"SLURM_CONF": str(folder / "slurm.conf")}
        nodes = "".join(f"NodeName={pc.name} NodeAddr={pc.address} CPUs={cpus}\n" for pc in self.pcs)
        (folder / "slurm.conf").write_text(CONF.format(controller=self.pcs[0], folder=folder) + nodes)
        # Without it slurmd looks for cgroups, whatever the other settings say, and ends where it finds none.
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (folder / "munge.key").write_bytes(secrets.token_bytes(128))
        (folder / "munge.key").chmod(0o600)
        for number, pc in enumerate(self.pcs):
            role = "node" if number else "controller"
            pc.run("bash", "-c", NODE_BEGINS, "slurm", str(folder / "munge.key"), role, env=self._env)
        wait_until(
            lambda: self.run("sinfo", "-h", "-o", "%T %D").split() == ["idle", str(len(self.pcs))],
            "idle nodes",
        )

    def run(self, *command: str, env: Mapping[str, str] | None = None) -> str:
        """What a command of Slurm's says."""
        return self.pcs[0].run(*command, env={**self._env, **(env or {})}).stdout

    def submit(self, *words: str, env: Mapping[str, str] | None = None) -> str:
        """`sbatch`; the id of the job."""
        output = f"--output={self._folder}/job-%j.out"
        return self.run("sbatch", "--parsable", output, *words, env=env).strip()

    def said(self, job: str) -> str:
        """What a job has written."""
        with contextlib.suppress(FileNotFoundError):
            return (self._folder / f"job-{job}.out").read_text()
        return ""

    def shown(self, job: str) -> dict[str, str]:
        """Slurm's words about a job."""
        words = self.run("scontrol", "show", "job", job).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def state(self, job: str) -> str:
        """PENDING, RUNNING, COMPLETED ..."""
        return self.shown(job)["JobState"]

    def is_over(self, job: str) -> bool:
        """Whether it will not run any more."""
        return self.state(job) in OVER

    def end_of(self, job: str, timeout_s: float = 400) -> str:
        """Wait until it is over; its state."""
        wait_until(lambda: self.is_over(job), f"the end of job {job}", timeout_s)
        return self.state(job)
