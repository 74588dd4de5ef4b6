"""What speaks of single devices or to the host: refused, but inside `jax.shard_map`."""

from __future__ import annotations

from dataclasses import replace

from dtensor.passes.ops.opdef import UNKNOWN
from dtensor.passes.ops.written import WRITTEN

_REFUSED = "speaks of single devices; a program for dtensor is written for one device"
COLLECTIVE = replace(WRITTEN, refused=_REFUSED)
OWN_NUMBER = replace(UNKNOWN, refused=_REFUSED, varies=True)
HOST = replace(
    UNKNOWN,
    refused="talks to the host or to other programs and cannot be expanded",
    varies=True,
)
