"""PCs on one machine: each with its own network, processes, folders, name, and a cable to one switch.

A PC is a process in namespaces of its own (net, pid, mount, uts, ipc): own address, home, /tmp, /var/tmp,
/run and /dev/shm. It sees this project and the Python that runs the tests. No cable leads out, and each lab
has a switch of its own, so that two labs may use the same addresses at a time. A lab is gone with the process
that made it, however that ended: every PC reads from a pipe that nobody else holds, and is gone, with all its
processes, when that is closed.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from tests import ROOT

HOME = Path(pwd.getpwuid(os.geteuid()).pw_dir)
"""As sshd has it."""
NET = "10.77.0."
FIRST = 10
KEY = "id_ed25519"
LIVES = "echo up; exec env --ignore-signal=CHLD cat >/dev/null"
"""Until its standard input ends; who ignores SIGCHLD as process 1 leaves no zombies."""
PC_BEGINS = f"""
set -e
folder=$1 name=$2; shift 2
mount --bind "$folder/hosts" /etc/hosts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /var/tmp
mkdir -p /run/sshd /run/lock
while [ $# -gt 0 ]; do mkdir -p "$2"; mount --bind "$1" "$2"; shift 2; done
mount --rbind "$folder/home" {HOME}
mount --rbind "$folder/tmp" /tmp
hostname "$name"
ip link set lo up
{LIVES}
"""
SWITCH_BEGINS = f"set -e; ip link set lo up; ip link add br0 type bridge; ip link set br0 up; {LIVES}"


@functools.cache
def why_not() -> str | None:
    """Why there can be no lab here; None: there can."""
    missing = [name for name in ("ip", "unshare", "nsenter", "sshd", "ssh-keygen") if _tool(name) is None]
    if missing:
        return f"PCs in namespaces need {', '.join(missing)}"
    if os.geteuid() != 0:
        return "PCs in namespaces need root"
    try:
        with tempfile.TemporaryDirectory(prefix="lab") as folder, made(Path(folder)) as lab:
            lab.add(1)
    except (OSError, RuntimeError) as error:
        return f"no PC in namespaces can be made here: {error}"
    return None


class PC:
    """One PC, on from the start; `Lab.add` makes it."""

    def __init__(self, lab: Lab, number: int) -> None:
        self.name = f"pc{number}"
        self.address = f"{lab.net}{FIRST + number}"
        self._lab = lab
        self._folder = lab.folder / self.name
        self._port = f"port{number}"
        self._card = f"02:00:00:00:00:{number:02x}"  # the same after a boot, as neighbours remember it
        self._life: subprocess.Popen[str] | None = None
        self._pid = 0
        for name in ("home/.ssh", "tmp"):
            (self._folder / name).mkdir(parents=True)
        (self._folder / "tmp").chmod(0o1777)
        (self._folder / "home" / ".ssh").chmod(0o700)
        self.power_on()

    def power_on(self) -> None:
        """Boot: its disk is as it was, its memory empty."""
        folder = self._folder
        shutil.copy(self._lab.folder / "hosts", folder / "hosts")
        kept = [str(place) for path in self._lab.kept for place in (path, self._inside(path))]
        spaces = ("--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc")
        self._life = _begin(
            ["unshare", *spaces, "bash", "-c", PC_BEGINS, "pc", str(folder), self.name, *kept]
        )
        self._pid = _children(self._life.pid)[0]
        self._lab.on_the_switch(
            f"ip link add {self._port} type veth peer name eth0 address {self._card} netns {self._pid}"
        )
        self._lab.on_the_switch(f"ip link set {self._port} master br0 up")
        self.run("sh", "-c", f"ip address add {self.address}/24 dev eth0 && ip link set eth0 up")

    def power_cut(self) -> None:
        """Pull the power: nothing of it says goodbye."""
        self._lab.on_the_switch(f"ip link delete {self._port}")  # first: the kernel closes sockets politely
        self._end()

    def unplug(self) -> None:
        """Pull the cable: it runs on, and packets vanish."""
        self._lab.on_the_switch(f"ip link set {self._port} down")

    def plug_in(self) -> None:
        """Put the cable back."""
        self._lab.on_the_switch(f"ip link set {self._port} up")

    def run(
        self, *command: str, check: bool = True, timeout_s: float = 60, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in it, in this project's folder, and wait; what it said, errors among it.

        Raises:
            AssertionError: it failed, and `check` says that it must not.
        """
        done = subprocess.run(
            self.words_for(command, env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
        )
        assert not check or done.returncode == 0, f"{self.name}: {command}: {done.stdout}"
        return done

    def start(self, *command: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a process in it; what it says, errors among it, is in `stdout`. See `signal`."""
        return subprocess.Popen(
            self.words_for(command, env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def words_for(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> list[str]:
        """What runs a command in it when it is run here: for who starts it in another way than `run`."""
        spaces = ("--net", "--mount", "--uts", "--ipc", "--pid")
        settings = [f"{name}={value}" for name, value in {"HOME": str(HOME), **(env or {})}.items()]
        as_on_a_pc = ["env", f"--chdir={ROOT}", "--unset=RAY_TMPDIR", *settings]
        return ["nsenter", f"--target={self._pid}", *spaces, *as_on_a_pc, *command]

    def signal(self, process: subprocess.Popen[str], number: int) -> None:
        """Send a signal to a process that `start` started: what we hold is the one that entered the PC."""
        for pid in _children(process.pid):
            os.kill(pid, number)

    def path(self, path: str | Path) -> Path:
        """A path of it, as it is reached from here while it is on."""
        return Path(f"/proc/{self._pid}/root{str(path).replace('~', str(HOME), 1)}")

    def sshd(self, *options: str) -> None:
        """Serve SSH; an option, such as `Port=2022`, wins over ours. Key login for all PCs of the lab."""
        settings = (
            "HostKey=~/.ssh/host_key",
            "PidFile=/run/sshd.pid",
            "UsePAM=no",
            "PasswordAuthentication=no",
        )
        given = [word for option in (*options, *settings) for word in ("-o", option.replace("~", str(HOME)))]
        self.run(_tool("sshd") or "sshd", "-f", "/dev/null", *given)
        wait_until(lambda: self.path("/run/sshd.pid").exists(), f"sshd of {self.name}")

    def end(self) -> None:
        """Be gone, whatever state it is in."""
        if self._life is not None and self._life.poll() is None:
            self._end()

    def _end(self) -> None:
        assert self._life is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, 9)  # the first process of a pid namespace takes all others with it
        with self._life:  # closes the pipe and waits
            pass

    def _inside(self, path: Path) -> Path:
        """Where a path must lie so that it is itself once our home and /tmp cover the real ones."""
        for shown, name in ((HOME, "home"), (Path("/tmp"), "tmp")):
            if path.is_relative_to(shown):
                return self._folder / name / path.relative_to(shown)
        return path


class Lab:
    """PCs on a switch.

    Args:
        folder: of theirs, empty.
        shared: folders that all PCs see where they are seen here, beside this project and its Python: a
            network's file server.
        net: the first three numbers of the addresses.
    """

    def __init__(self, folder: Path, shared: Sequence[Path] = (), net: str = NET) -> None:
        self.folder, self.net = folder, net
        self.pcs: list[PC] = []
        python = (Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve())
        self.kept = [path for path in (ROOT, *python, *shared) if _is_covered(path)]
        names = [f"{net}{FIRST + number} pc{number}" for number in range(64)]
        (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *names]) + "\n")
        self._switch = _begin(["unshare", "--net", "sh", "-c", SWITCH_BEGINS])

    def add(self, count: int) -> list[PC]:
        """So many PCs more, each with a key that logs in on all others, and knows their host keys."""
        new = []
        for _ in range(count):
            new.append(PC(self, len(self.pcs)))
            self.pcs.append(new[-1])
        self._hand_out_keys()
        return new

    def take_down(self) -> None:
        """End every process of the lab."""
        for pc in self.pcs:
            pc.end()
        with self._switch:  # closes its pipe, at which it ends, and waits
            pass

    def on_the_switch(self, command: str) -> None:
        """Run a command where all cables end."""
        words = ["nsenter", f"--target={self._switch.pid}", "--net", "sh", "-c", command]
        done = subprocess.run(words, capture_output=True, text=True, timeout=30)
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stderr.strip()}")

    def _hand_out_keys(self) -> None:
        key = self.folder / KEY
        if not key.exists():
            _new_key(key)
        known = []
        for pc in self.pcs:
            theirs = pc.path("~/.ssh")
            if not (theirs / "host_key").exists():
                _new_key(theirs / "host_key")
                shutil.copy(key, theirs)
                shutil.copy(key.with_suffix(".pub"), theirs / "authorized_keys")
            known.append(f"{pc.address},{pc.name} {(theirs / 'host_key.pub').read_text()}")
        for pc in self.pcs:
            pc.path("~/.ssh/known_hosts").write_text("".join(known))


@contextlib.contextmanager
def made(folder: Path, shared: Sequence[Path] = (), net: str = NET) -> Iterator[Lab]:
    """A lab without PCs yet; all of it is taken down afterwards."""
    lab = Lab(folder, shared, net)
    try:
        yield lab
    finally:
        lab.take_down()


def wait_until(holds: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    """Look five times a second.

    Raises:
        AssertionError: it does not hold in time; `what` says what was waited for.
    """
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, f"waited {timeout_s:.0f} s for {what}"
        time.sleep(0.2)


def _begin(command: Sequence[str]) -> subprocess.Popen[str]:
    """Start what says `up` and then lives until our end of its pipe is closed."""
    started = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # Ctrl-C is for the tests, which take the lab down in order
    )
    assert started.stdout is not None
    said = started.stdout.readline()
    if said != "up\n":
        rest, _ = started.communicate(timeout=60)  # closes our end of its pipe, too
        raise RuntimeError((said + rest).strip())
    return started


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _new_key(path: Path) -> None:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)


def _is_covered(path: Path) -> bool:
    """Whether a PC's own home or /tmp lies where this path is."""
    return path.is_relative_to(HOME) or path.is_relative_to("/tmp")


def _tool(name: str) -> str | None:
    """An administrator's program may lie where no user's PATH leads."""
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
