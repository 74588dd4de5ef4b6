"""Checkpoints and datasets of layouts that do not divide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtensor.compiler.api import jit
from dtensor.compiler.relayout import copy_to_mesh
from dtensor.compiler.variables.engine import DVariable
from dtensor.dialect.layout import Layout
from dtensor.runtime.checkpoint.named import name_based_restore, name_based_save
from dtensor.runtime.data.dataset import DTensorDataset
from tests.py.uneven.on_meshes import FIVE, GRID, LINE

X = np.arange(30, dtype=np.float32).reshape(6, 5)


def test_checkpoints_are_of_the_true_size(tmp_path: Path) -> None:
    layouts = {
        "rows": Layout(["y", None], GRID),
        "both": Layout([("x", "y"), None], GRID),
        "one": Layout(["x", "y"], GRID),
        "whole": Layout([None, None], GRID),
    }
    saved = {name: copy_to_mesh(X, layout) for name, layout in layouts.items()}
    name_based_save(GRID, tmp_path / "c", saved)
    turned = dict(zip(layouts, reversed(layouts.values()), strict=True))
    for wanted in (layouts, turned):
        found = name_based_restore(GRID, tmp_path / "c", wanted)
        for name, tensor in found.items():
            assert (tensor.shape, tensor.layout) == (X.shape, wanted[name])
            np.testing.assert_array_equal(tensor.to_jax(), X)
    other = dict.fromkeys(layouts, Layout([None, "x"], LINE))
    for tensor in name_based_restore(LINE, tmp_path / "c", other).values():
        np.testing.assert_array_equal(tensor.to_jax(), X)


def test_a_variable_is_saved_and_restored(tmp_path: Path) -> None:
    v = DVariable(X, layout=Layout(["y", None], GRID))
    name_based_save(GRID, tmp_path / "c", {"v": v})
    v.assign(copy_to_mesh(0 * X, v.layout))
    v.assign(name_based_restore(GRID, tmp_path / "c", {"v": v})["v"])
    np.testing.assert_array_equal(v.value().to_jax(), X)


@pytest.mark.sweep
@pytest.mark.parametrize("source", [list, iter], ids=["list", "iterator"])
@pytest.mark.parametrize(
    "layout",
    [
        Layout(["y", None], GRID),
        Layout([None, "y"], GRID),
        Layout([("x", "y"), None], GRID),
        Layout(["x", None], FIVE),
    ],
    ids=Layout.short,
)
def test_batches_and_remainders(layout: Layout, source: Any) -> None:
    examples = np.arange(70, dtype=np.float32).reshape(14, 5)
    data = DTensorDataset(
        source(list(examples)),
        mesh=layout.mesh,
        layouts=layout,
        global_batch_size=6,
        drop_remainder=False,
    )
    total = jit(lambda x: x.sum())
    batches = list(data)
    assert [batch.shape for batch in batches] == [(6, 5), (6, 5), (2, 5)]
    for k, batch in enumerate(batches):
        wanted = examples[6 * k : 6 * k + 6]
        assert batch.layout == layout
        np.testing.assert_array_equal(batch.to_jax(), wanted)
        assert float(total(batch).numpy()) == wanted.sum()


def test_batches_of_batches() -> None:
    examples = np.arange(60, dtype=np.int32).reshape(12, 5)
    layout = Layout([("x", "y"), None], GRID)
    data = DTensorDataset(
        [examples[:6], examples[6:]],
        mesh=GRID,
        layouts=layout,
        global_batch_size=6,
        dataset_already_batched=True,
        batch_dim=None,
    )
    for k, batch in enumerate(data):
        np.testing.assert_array_equal(batch.to_jax(), examples[6 * k : 6 * k + 6])
