"""--storage: what it may say, and what is refused before anything starts."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sweeps.common.errors import UserError
from sweeps.config.sweep_config import SweepConfig
from sweeps.plan.build import make_plan
from sweeps.plan.describe import describe
from sweeps.plan.plan import Plan
from sweeps.storage.open import Folder, check_setting, open_storage_of
from sweeps.storage.remote import Remote


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, None),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("sftp://head/srv/sweeps", "sftp://head/srv/sweeps"),
        ("sftp://me@10.0.0.1:2222/srv/sweeps", "sftp://me@10.0.0.1:2222/srv/sweeps"),
    ],
)
def test_what_may_be_said(given: str | None, kept: str | None) -> None:
    assert check_setting(given) == kept


def test_a_folder_is_kept_with_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert check_setting("shared/checkpoints") == str(tmp_path / "shared" / "checkpoints")
    assert check_setting("./s3:odd") == str(tmp_path / "s3:odd")


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (
            "stfp://head/srv",
            r"stfp:// is not supported. Did you mean 'sftp'\? Give a folder, or a URL: s3://bucket",
        ),
        ("gs://bucket/x", "gs:// is not supported.*s3://bucket/prefix or sftp://"),
        ("s3:///prefix", "the bucket is missing"),
        ("sftp:///srv", "the host is missing"),
        ("sftp://head", "the path is missing"),
        ("sftp://head/~/sweeps", "give the whole path"),
        ("sftp://head:twelve/srv", "not a URL: Port"),
        ("sftp:head/srv", "a URL begins with s3:// or sftp://. Did you mean 'sftp://head/srv'"),
        ("head:/srv", "Did you mean 'sftp://head/srv'"),
        ("me@head:/srv", "Did you mean 'sftp://me@head/srv'"),
        ("s3://bucket/x?region=eu", "nothing may follow the path"),
    ],
)
def test_what_is_refused(given: str, answer: str) -> None:
    with pytest.raises(UserError, match=answer):
        check_setting(given)


@pytest.mark.parametrize(
    "given",
    ["sftp://me:hunter2@head/srv", "s3://AKIAKEY:hunter2@bucket/x", "sftp://me:hunter2@head:x/srv"],
)
def test_a_secret_is_refused_and_not_said_again(given: str) -> None:
    with pytest.raises(UserError) as refused:
        check_setting(given)
    assert "hunter2" not in str(refused.value)
    assert "AKIAKEY" not in str(refused.value)


def test_a_place_that_can_not_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="this is a file"):
        check_setting(str(tmp_path / "file"))
    with pytest.raises(UserError, match="is not a writable folder"):
        check_setting(str(tmp_path / "file" / "below"))


def test_a_private_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = Path.stat

    def private(path: Path, **given: bool) -> os.stat_result:
        if path.is_relative_to(tmp_path):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return stat(path, **given)

    monkeypatch.setattr(Path, "stat", private)
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) == "/" and mode == os.F_OK)
    with pytest.raises(UserError, match="/ is not a writable folder"):
        check_setting(str(tmp_path / "checkpoints"))


def test_the_plan_says_where_checkpoints_go_and_all_sweeps_have_a_place_of_their_own(tmp_path: Path) -> None:
    def planned(storage: str | None) -> Plan:
        results = str(tmp_path / "results")
        return make_plan(
            SweepConfig.from_settings(
                name="mine", trainable="digits_mlp", results_dir=results, storage=storage
            )
        )

    plain = planned(None)
    assert plain.storage == Folder(tmp_path / "results" / "mine")
    assert "storage " not in describe(plain)
    shared = planned(str(tmp_path / "shared"))
    assert shared.storage == Folder(tmp_path / "shared" / "mine")
    assert f"storage    checkpoints in {tmp_path}/shared/mine" in describe(shared)
    far = planned("sftp://head/srv/")
    assert isinstance(far.storage, Remote)
    assert "storage    checkpoints in sftp://head/srv/mine" in describe(far)


@pytest.mark.parametrize("content", [b"storage: [s3://bucket\n", b"# M\xfcnchen\n", b"- storage\n", None])
def test_a_sweep_whose_settings_can_not_be_read_has_its_checkpoints_in_its_folder(
    content: bytes | None, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "sweep.yaml").write_bytes(content)
    assert open_storage_of(tmp_path) == Folder(tmp_path)
    (tmp_path / "sweep.yaml").write_text("storage: s3://bucket\n")
    assert isinstance(open_storage_of(tmp_path), Remote)
