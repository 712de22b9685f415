"""The cluster file, as far as it is read here."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.pcs import cluster_file
from sweeps.pcs.__main__ import main


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "can't be read (No such file or directory); copy ray_cluster.yaml"),
        ("a: [", "not YAML: "),
        ("- 1", "provider: must be 'name: value' lines"),
        ("provider: {type: aws}\nauth: {}", "provider.type aws: must be local"),
        ("provider: {type: local, head_ip: a}\nauth: {}", "provider.worker_ips: must be a list"),
        ("provider: {type: local, worker_ips: []}\nauth: {}", "provider.head_ip None: must be a name"),
        ("provider: {type: local, head_ip: -oProxyCommand=x, worker_ips: []}\nauth: {}", "head_ip -o"),
        ("provider: {type: local, head_ip: a, worker_ips: [a]}\nauth: {}", "is given twice: a, a"),
        ("provider: {type: local, head_ip: a, worker_ips: [b]}\nauth: {}", "auth.ssh_user None: must be"),
    ],
)
def test_a_bad_cluster_file_is_the_users_mistake(
    text: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cluster.yaml"
    if text is not None:
        path.write_text(text)
    assert main(["check", str(path)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {path}: ")
    assert message in said
    assert len(said.splitlines()) == 1


FULL = """
provider: {type: local, head_ip: 10.0.0.1, worker_ips: [10.0.0.2, pc3.lab]}
auth: {ssh_user: me, ssh_private_key: ~/.ssh/lab}
head_start_ray_commands:
  - ray stop
  - ray start --head --port=6379 --node-manager-port 6380 --temp-dir=/srv/ray
"""


def test_what_is_read_of_a_file_is_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    (tmp_path / "cluster.yaml").write_text(FULL)
    found = cluster_file.read(tmp_path / "cluster.yaml")
    assert (found.head, found.pcs) == ("10.0.0.1", ("10.0.0.1", "10.0.0.2", "pc3.lab"))
    assert (found.user, found.key, found.temp_dir) == ("me", "/home/me/.ssh/lab", "/srv/ray")
    assert (found.ports_of("10.0.0.1"), found.ports_of("pc3.lab")) == ([6379, 6380], [6380])


def test_what_a_file_leaves_out_is_as_ray_has_it(tmp_path: Path) -> None:
    lines = [line for line in FULL.splitlines() if "ray" not in line]
    text = "\n".join(lines).replace(", ssh_private_key: ~/.ssh/lab", "")
    (tmp_path / "cluster.yaml").write_text(text)
    found = cluster_file.read(tmp_path / "cluster.yaml")
    assert (found.key, found.temp_dir, found.ports_of(found.head)) == (None, "/tmp/ray", [])
