"""Checkpoints in an S3 bucket."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

from sweeps.storage.remote import CONNECT_S, SILENT_S, copy_to_server


@dataclass(frozen=True)
class S3:
    """A bucket, of Amazon or of another server (`AWS_ENDPOINT_URL`)."""

    url: str

    @property
    def root(self) -> str:
        split = urlsplit(self.url)
        return f"{split.netloc}{unquote(split.path)}"

    def open(self) -> Any:
        once = AwsStandardS3RetryStrategy(max_attempts=1)  # `Remote` tries again, with longer waits
        # Arrow reads these two from the environment in `S3FileSystem.from_uri` alone.
        endpoint = urlsplit(os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or "")
        arrow = S3FileSystem(
            scheme=endpoint.scheme or None,
            endpoint_override=endpoint.netloc or None,
            connect_timeout=CONNECT_S,
            request_timeout=SILENT_S,
            retry_strategy=once,
        )
        return ArrowFSWrapper(arrow, skip_instance_cache=True)

    def upload(self, fs: Any, file: Path, target: str) -> None:
        copy_to_server(fs, file, target)  # an object is visible only when it is complete

    def diagnose(self, error: Exception, fs: Any) -> tuple[str, bool]:
        text = " ".join(str(error).split())  # all that Arrow passes on
        bucket = urlsplit(self.url).netloc
        if "NO_SUCH_BUCKET" in text or ("Bucket" in text and "not found" in text):
            return f"there is no bucket {bucket}. Make it first", True
        refused = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "HTTP status 403")
        if any(code in text for code in refused):
            return (
                "S3 rejects the credentials of this PC or their permissions. Check AWS_ACCESS_KEY_ID, "
                f"AWS_SECRET_ACCESS_KEY or AWS_PROFILE, and the policy of {bucket}",
                True,
            )
        return text, False

    def make(self, fs: Any) -> None:
        if not fs.exists(urlsplit(self.url).netloc):
            raise OSError("NO_SUCH_BUCKET")  # S3 has no folders to make
