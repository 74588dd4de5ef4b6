"""Two clients save one checkpoint together; one process reads it."""

import os
from pathlib import Path

import numpy as np
import pytest

from dtensor.dialect.errors import CheckpointError
from dtensor.dialect.layout import Layout
from dtensor.runtime.checkpoint import clients
from dtensor.runtime.checkpoint.named import list_checkpoint, name_based_restore
from tests.py.runtime.checkpoint.arrays import mesh_8, ramp, whole
from tests.py.runtime.clients.launching import run_jax_processes

CHILD = Path(__file__).with_name("clients_child.py")


@pytest.mark.slow
def test_two_clients_save_and_restore_together(tmp_path: Path) -> None:
    for child in run_jax_processes(CHILD, str(tmp_path), devices=2).values():
        assert child.status == 0, child.err
        assert "right" in child.out
    assert sorted(os.listdir(tmp_path)) == ["c", "c8", "last-4", "many-2", "many-3"]
    assert list_checkpoint(tmp_path / "c").clients == 2
    layout = Layout(["z", None], mesh_8())
    restored = name_based_restore(mesh_8(), tmp_path / "c", {"both": layout, "whole": layout})
    np.testing.assert_array_equal(whole(restored["both"]), ramp(8, 12))
    np.testing.assert_array_equal(whole(restored["whole"]), ramp(8, 12) + 2)


def test_lists_that_differ_name_the_client_and_the_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    for other, match in [
        (["a f32", "c f32"], "save different things: client 1 has c f32 where client 0 has b f32"),
        (["a f32"], "client 1 has nothing more where client 0 has b f32; call it with the same"),
        (["b f32", "a f32"], "client 1 has b f32 where client 0 has a f32; call it"),
    ]:
        lists = [["a f32", "b f32"], other]
        answers = iter([["digest", "another"], lists])
        monkeypatch.setattr(clients, "together", lambda *_, answers=answers: next(answers))
        with pytest.raises(CheckpointError, match=match):
            clients.same_everywhere((0, 1), "save", lists[0])
