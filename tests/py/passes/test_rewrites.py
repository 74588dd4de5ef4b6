"""Passes that are tables of rewrites: what they name is there, and what changed is recorded."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import dtensor
from dtensor.passes.base import PassOptionError
from dtensor.passes.cuts.fuse import FuseCutsPass
from dtensor.passes.forms.find import FindFormsPass
from dtensor.passes.rewriting.table import Rewrite, RewritesPass

_ALL = [(cls, each) for cls in (FindFormsPass, FuseCutsPass) for each in cls.TABLE]


@pytest.mark.parametrize(
    ("cls", "rewrite"), _ALL, ids=[f"{each.file}.{each.function}" for _, each in _ALL]
)
def test_a_table_names_functions(cls: type[RewritesPass], rewrite: Rewrite) -> None:
    file = cls.rewrites()[rewrite.file]
    assert getattr(file, rewrite.function).__module__ == file.__name__
    assert (file.__doc__ or "").strip()


def test_what_changed_is_recorded_in_order() -> None:
    rows = dtensor.Layout(["x"], dtensor.Mesh.abstract([("x", 4)]))
    numbers = jax.ShapeDtypeStruct((64,), jnp.uint8)
    rolled = dtensor.jit(lambda x: jnp.roll(x.astype(jnp.float32), 1), in_layouts=rows)
    assert rolled.lower(numbers).ledger["rewrites"] == ["chains", "narrow_moves"]
    doubled = dtensor.jit(lambda x: x * 2, in_layouts=rows)
    assert doubled.lower(numbers).ledger["rewrites"] == []


def test_names_may_have_spaces_around_and_must_be_known() -> None:
    assert FuseCutsPass(without=" chains ,strides,").without == " chains ,strides,"
    with pytest.raises(PassOptionError, match="no rewrite 'stride'; did you mean 'strides'"):
        FuseCutsPass(without="chains, stride")


def test_each_is_worth_something_to_the_program_that_shows_it() -> None:
    page = (Path(__file__).parents[3] / "docs" / "rewrites.md").read_text(encoding="utf-8")
    lines = [line.split() for line in page.rpartition("prints")[2].splitlines()]
    numbers = {
        cells[0]: [int(each.replace(",", "")) for each in cells[1:]]
        for cells in lines
        if len(cells) == 5 and cells[1][0].isdigit()
    }
    assert list(numbers) == list(dict.fromkeys(each.file for _, each in _ALL))
    for name, (sent, sent_without, flops, flops_without) in numbers.items():
        assert sent < sent_without or (sent == sent_without and flops < flops_without), name
