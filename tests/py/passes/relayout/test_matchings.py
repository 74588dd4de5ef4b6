"""Pieces that change devices in rounds arrive where the layouts say, in as few rounds as can be."""

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED
from dtensor.passes.ops.rounds import elements_sent
from dtensor.passes.relayout.matchings import MixedRadix, matching
from dtensor.runtime.client import create_mesh
from tests.py.passes.on_mesh import run, sent


def shards(digits: MixedRadix, pieces: int) -> list[list[int]]:
    """The pieces of each device, in order."""
    devices = int(np.prod([size for _, size in digits]))
    found: list[list[int]] = [[] for _ in range(devices)]
    for piece in range(pieces):
        device = 0
        for outer, size in digits:
            device = device * size + piece * outer * size // pieces % size
        found[device].append(piece)
    return found


@pytest.mark.parametrize(
    ("before", "after", "pieces"),
    [
        (((2, 8),), ((1, 8),), 16),
        (((1, 8),), ((3, 8),), 24),
        (((3, 5),), ((1, 5),), 15),
        (((2, 8),), ((3, 8),), 48),
        (((4, 3), (2, 2)), ((1, 3), (3, 2)), 12),
        (((7, 7),), ((1, 7),), 49),
    ],
)
def test_pieces_arrive(before: MixedRadix, after: MixedRadix, pieces: int) -> None:
    rounds = matching(before, after, pieces)
    have, want = shards(before, pieces), shards(after, pieces)
    got = [list(pieces) for pieces in have]
    for each in rounds:
        assert each.count == 1
        senders = [source for source in each.sources if source >= 0]
        assert len(set(senders)) == len(senders)  # a permute: each device sends to one
        for device, source in enumerate(each.sources):
            assert source != device or not each.is_sent
            if source >= 0:
                got[device][each.places[device]] = have[source][each.starts[source]]
    assert got == want
    lacks = [len(set(w) - set(h)) for w, h in zip(want, have, strict=True)]
    leave = Counter(d for d, h in enumerate(have) for p in h if p not in want[d])
    assert elements_sent(rounds)[1] == max(*lacks, *leave.values())


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [np.float32, np.bool_, np.complex64, jnp.bfloat16])
@pytest.mark.parametrize(
    ("sizes", "axes"),
    [
        ({"x": 8}, "x"),
        ({"x": 2, "y": 4}, ("x", "y")),
        ({"x": 2, "y": 4}, "y"),
        ({"x": 3, "y": 2}, ("y", "x")),
        ({"x": 5}, "x"),
    ],
)
def test_operands_that_are_joined_send_what_others_lack(
    dtype: Any, sizes: dict[str, int], axes: Any
) -> None:
    mesh = create_mesh(list(sizes.items()), devices=jax.devices()[: np.prod([*sizes.values()])])
    split = int(np.prod([sizes[axis] for axis in ([axes] if isinstance(axes, str) else axes)]))
    rng = np.random.default_rng(0)
    values = [rng.integers(0, 2, (16 * split, 64)).astype(dtype) for _ in range(3)]
    values[0][3, 5] = -0.0 if dtype != np.bool_ else False
    specs = [axes, UNSHARDED]
    bytes_ = values[0].nbytes / split
    compiled = run(lambda a, b: jnp.concatenate([a, b]), mesh, [specs] * 2, *values[:2], out=specs)
    assert sent(compiled) <= 2 * bytes_
    compiled = run(lambda *all_: jnp.concatenate(all_), mesh, [specs] * 3, *values, out=specs)
    assert sent(compiled) <= 3 * bytes_
    run(lambda a: a.reshape(4, 4, -1, 64)[:, 1], mesh, [specs], values[0])
