"""What speaks of single devices or to the host: refused, but inside `jax.shard_map`."""

from __future__ import annotations

from dataclasses import replace

from dtensor.passes.ops.opdef import UNKNOWN

COLLECTIVE = replace(
    UNKNOWN, refused="speaks of single devices; a program for dtensor is written for one device"
)
OWN_NUMBER = replace(COLLECTIVE, varies=True)
HOST = replace(
    UNKNOWN,
    refused="talks to the host or to other programs and cannot be expanded",
    varies=True,
)
