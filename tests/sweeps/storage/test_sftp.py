"""Hosts that are reached by SFTP: their keys, and what may be wrong with them."""

from __future__ import annotations

import getpass

import pytest

from sweeps.storage.open import backend_of
from sweeps.storage.protocol import StorageError
from sweeps.storage.remote import Remote
from tests.support.servers import SSHServer
from tests.sweeps.storage.far import sftp


def test_an_unknown_host_key_is_refused_by_name(server: SSHServer) -> None:
    server.known_hosts.write_text("")
    named = (
        rf"the host key of \[127.0.0.1\]:{server.port} is not in known_hosts, or another one is. Log in once"
    )
    with pytest.raises(StorageError, match=named):
        sftp(server, 60.0).make()


def test_no_setting_of_ssh_turns_the_check_off(server: SSHServer) -> None:
    server.known_hosts.unlink()
    for line in ("UserKnownHostsFile none", "UserKnownHostsFile /dev/null", "StrictHostKeyChecking no"):
        (server.home / ".ssh" / "config").write_text(f"Host *\n  {line}\n")
        with pytest.raises(StorageError, match="is not in known_hosts"):
            sftp(server).make()


def test_a_changed_host_key_is_refused_by_name(server: SSHServer) -> None:
    server.know(server.home / ".ssh" / "id_ed25519.pub")
    with pytest.raises(
        StorageError, match=r"is not in known_hosts, or another one is.*ssh-keygen -R '\[127.0.0.1\]:"
    ):
        sftp(server, 60.0).make()


def test_a_key_that_the_host_does_not_know_is_refused(server: SSHServer) -> None:
    (server.folder / "authorized_keys").write_text("")
    said = rf"accepts no key of this PC for the user {getpass.getuser()}\. Add one to the SSH agent"
    with pytest.raises(StorageError, match=said):
        sftp(server, 60.0).make()


def test_a_file_of_this_pc_that_may_not_be_read_is_named() -> None:
    """Such as a key that ~/.ssh/config names: with it no settings of SSH can be read."""
    error = PermissionError(13, "Permission denied", "/home/me/.ssh/key")
    said = backend_of("sftp://pc1/checkpoints").diagnose(error, None)
    assert said == ("/home/me/.ssh/key on this PC: Permission denied", True)


def test_a_host_has_its_capital_letters_in_the_settings_of_ssh_and_small_ones_among_known_hosts(
    server: SSHServer,
) -> None:
    kind_and_key = server.known_hosts.read_text().partition(" ")[2]
    server.known_hosts.write_text(f"[localhost]:{server.port} {kind_and_key}")
    (server.home / ".ssh" / "config").write_text("Host NAS\n  HostName LOCALHOST\n")
    for host in ("NAS", "LocalHost"):
        url = f"sftp://{getpass.getuser()}@{host}:{server.port}{server.root}"
        Remote(backend_of(url), "NAME").write_note("note")


def test_a_host_without_sftp_is_named(server: SSHServer) -> None:
    settings = server.folder / "config"
    settings.write_text(settings.read_text().replace("Subsystem sftp internal-sftp\n", ""))
    server.stop()
    server.start()
    with pytest.raises(StorageError, match=r"accepts the key but offers no SFTP. Add `Subsystem sftp`"):
        sftp(server, 60.0).make()


def test_a_place_that_may_not_be_written_is_named(server: SSHServer) -> None:
    store = Remote(backend_of(f"{server.url.removesuffix(str(server.root))}/proc"), "NAME", ())
    with pytest.raises(StorageError, match=r"/proc: .*\(127.0.0.1\)"):
        store.write_note("note")
