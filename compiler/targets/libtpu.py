"""Which release of libtpu goes with the jax that is installed.

What a later libtpu compiles, jaxlib cannot read back for some programs (scans on v5p and v6e), and
says so only after minutes of work. jax names the release that it was made with in its extra `tpu`.
"""

from __future__ import annotations

import importlib.util
import os
import re
from importlib import metadata

from dtensor.compiler.targets.compilers import tpu_compiler
from dtensor.compiler.targets.target import Target
from dtensor.dialect.errors import NotFoundError

_OWN = "TPU_LIBRARY_PATH"  # a library that the user chose: its release is the user's concern
_PIN = re.compile(r"libtpu\s*==\s*([\d.]+?)(\.\*)?\s*;")


def check_libtpu(target: Target) -> None:
    """Check that what compiles for TPUs is here, and of the release that jax was made with.

    Raises:
        NotFoundError: it is not.
    """
    if _OWN in os.environ:
        return
    if importlib.util.find_spec("libtpu") is None:
        raise NotFoundError(
            f"compiling for {target} needs libtpu, which is not installed; run {tpu_compiler()}"
        )
    wanted, found = fitting_release(), _installed_release()
    if wanted is None or found is None or _fits(found, wanted):
        return
    raise NotFoundError(
        f"compiling for {target} needs libtpu {wanted}, which jax {metadata.version('jax')} was "
        f"made with, and libtpu {found} is installed; run {tpu_compiler()}, or name another "
        f"library in {_OWN}"
    )


def fitting_release() -> str | None:
    """The release of libtpu that jax was made with, such as `0.0.42`; None if it does not say."""
    for requirement in metadata.requires("jax") or ():
        match = _PIN.match(requirement)
        if match is not None:
            return match.group(1)
    return None


def _installed_release() -> str | None:
    try:
        return metadata.version("libtpu")
    except metadata.PackageNotFoundError:  # not installed by pip
        return None


def _fits(found: str, wanted: str) -> bool:
    return f"{found}.".startswith(f"{wanted}.")
