"""Which versions of jaxlib are supported."""

from __future__ import annotations

import pytest

from dtensor.dialect.errors import UnsupportedVersionError
from dtensor.dialect.mlir import JAXLIB_VERSION, check_version


@pytest.mark.parametrize(
    "version", ["0.10.2", "0.10.10", "0.11", "0.12.0.1", "0.12.9", "0.11.0rc1"]
)
def test_versions_in_range_are_accepted(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["0.10.1", "0.9.9", "0.13.0", "0.13", "1.0", "0.13.0.dev2027"])
def test_versions_out_of_range_are_named(version: str) -> None:
    with pytest.raises(
        UnsupportedVersionError,
        match=rf"^jaxlib {version} is not supported; dtensor needs 0\.10\.2 <= jaxlib < 0\.13",
    ):
        check_version(version)


def test_the_installed_version_was_checked() -> None:
    check_version(JAXLIB_VERSION)
