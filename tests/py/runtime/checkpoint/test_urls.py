"""Checkpoints at URLs, on a file system in memory that stands for a bucket.

tensorstore, which writes the elements, has a door of its own to buckets: what is here are numbers.
"""

from collections.abc import Iterator

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from dtensor.dialect.errors import CheckpointError
from dtensor.runtime.checkpoint.checkpoint import DTensorCheckpoint
from dtensor.runtime.checkpoint.named import list_checkpoint
from dtensor.runtime.checkpoint.series import latest_checkpoint
from tests.py.runtime.checkpoint.arrays import mesh_8


class Bucket(MemoryFileSystem):  # type: ignore[misc]
    protocol = "s3"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(str(path).removeprefix("s3:/")))


@pytest.fixture(autouse=True)
def bucket() -> Iterator[None]:
    fsspec.register_implementation("s3", Bucket, clobber=True)
    yield
    Bucket.store.clear()


def test_numbered_checkpoints_in_a_bucket() -> None:
    checkpoint = DTensorCheckpoint(mesh_8(), step=1)
    assert checkpoint.save("s3://bucket/runs/c") == "s3://bucket/runs/c-1"
    checkpoint.step = 2
    path = checkpoint.save("s3://bucket/runs/c", max_to_keep=1)
    assert path == "s3://bucket/runs/c-2"
    assert latest_checkpoint("s3://bucket/runs") == path
    later = DTensorCheckpoint(mesh_8(), step=0)
    later.restore(path)
    assert later.step == 2  # type: ignore[attr-defined]
    with pytest.raises(CheckpointError, match="there is no checkpoint at s3://bucket/runs/c-1"):
        list_checkpoint("s3://bucket/runs/c-1")


def test_a_checkpoint_in_a_bucket_is_replaced() -> None:
    for step in (1, 2):
        DTensorCheckpoint(mesh_8(), step=step).write("s3://bucket/c")
        assert list_checkpoint("s3://bucket/c").plain == {"step": step}


def test_a_bucket_whose_package_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(scheme: str) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec, "get_filesystem_class", lacking)
    with pytest.raises(CheckpointError, match="'s3://bucket/c' cannot be used: Install s3fs"):
        latest_checkpoint("s3://bucket/c")
