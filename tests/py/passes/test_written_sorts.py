"""Sorts as people and other frameworks write them in MLIR, on 8 devices against one."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.compiler.mlir_frontend import compile_mlir
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import create_mesh
from tests.py.passes.on_mesh import GRID, LINE, SLOW

ALONE = Mesh([("alone", 1)])
THREE = create_mesh([("x", 3), ("y", 2)])
ROWS, COUNT = 4, 1003  # no mesh divides it, and columnsort applies on all


def program(elements: list[str], body: list[str], dimension: int | None) -> str:
    """A stable sort of rows by what a body says of `%a0`, `%b0`, `%a1`, ..."""
    types = ", ".join(f"tensor<{ROWS}x{COUNT}x{element}>" for element in elements)
    numbers = range(len(elements))
    given = ", ".join(f"%v{k}: tensor<{ROWS}x{COUNT}x{e}>" for k, e in enumerate(elements))
    pairs = ", ".join(f"%a{k}: tensor<{e}>, %b{k}: tensor<{e}>" for k, e in enumerate(elements))
    named = "" if dimension is None else f"dimension = {dimension} : i64, "
    lines = "\n".join(body)
    return f"""
    func.func @main({given}) -> ({types}) {{
      %s:{len(elements)} = "stablehlo.sort"({", ".join(f"%v{k}" for k in numbers)}) ({{
      ^bb0({pairs}):
        {lines}
        stablehlo.return %p : tensor<i1>
      }}) {{{named}is_stable = true}} : ({types}) -> ({types})
      return {", ".join(f"%s#{k}" for k in numbers)} : {types}
    }}
    """


def compare(element: str, sides: str, kind: str = "", name: str = "%p") -> str:
    written = f"{sides}, {kind}" if kind else sides
    scalar = f"tensor<{element}>"
    return f"{name} = stablehlo.compare {written} : ({scalar}, {scalar}) -> tensor<i1>"


def awkward(element: str, seed: int, has_nan: bool) -> np.ndarray[Any, Any]:
    """Many equal numbers, both zeros, both infinities and NaN of both signs."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 7, ROWS * COUNT).astype({"i1": "bool", "ui8": "uint8"}.get(element, "i4"))
    if element in ("i1", "i32", "ui8"):
        return x.reshape(ROWS, COUNT)
    x = (x - 3).astype(jnp.dtype({"f32": "float32", "bf16": "bfloat16"}[element]))
    x[rng.integers(0, x.size, x.size // 3)] = -0.0
    special = [np.inf, -np.inf, *([np.nan, -np.nan] if has_nan else [])]
    x[rng.integers(0, x.size, 20 * len(special))] = special * 20
    return x.reshape(ROWS, COUNT)


def bits(array: Any) -> np.ndarray[Any, Any]:
    return np.asarray(array).view(np.uint8)


LEXICAL = [
    compare("i32", "EQ, %a1, %b1", name="%same"),
    compare("i32", "GT, %a1, %b1", name="%more"),
    compare("f32", "LT, %a0, %b0", "TOTALORDER", "%less"),
    "%p = stablehlo.select %same, %less, %more : tensor<i1>, tensor<i1>",
]
SORTS = {
    "total order": (["f32"], [compare("f32", "LT, %a0, %b0", "TOTALORDER")], True),
    "total order, narrow": (["bf16"], [compare("bf16", "GT, %a0, %b0", "TOTALORDER")], True),
    "total order, turned": (["f32", "i32"], [compare("f32", "LT, %b0, %a0", "TOTALORDER")], True),
    "float": (["f32"], [compare("f32", "GT, %a0, %b0", "FLOAT")], False),
    "no type": (["f32"], [compare("f32", "LT, %a0, %b0")], False),
    "no type, by the second": (["i32", "bf16"], [compare("bf16", "LT, %a1, %b1")], False),
    "integers": (["i32"], [compare("i32", "LT, %b0, %a0")], False),
    "integers with floats": (["ui8", "f32"], [compare("ui8", "GT, %a0, %b0")], True),
    "booleans": (["i1", "f32"], [compare("i1", "LT, %a0, %b0")], True),
    "two keys": (["f32", "i32"], LEXICAL, True),
}


# The ways to write the dimension in turn, and all of them for the first sort.
WRITTEN = [(sort, (1, -1, None)[k % 3]) for k, sort in enumerate(SORTS)]
WRITTEN += [("total order", -1), ("total order", None)]


@pytest.mark.sweep
@pytest.mark.parametrize(("sort", "dimension"), WRITTEN)
def test_written_sorts(sort: str, dimension: int | None) -> None:
    elements, body, has_nan = SORTS[sort]
    text = program(elements, body, dimension)
    values = [awkward(element, k, has_nan) for k, element in enumerate(elements)]
    expected = compile_mlir(text, mesh=ALONE)(*values)
    for mesh, specs in (
        (LINE, [UNSHARDED, "x"]),
        (GRID, ["x", "y"]),
        (THREE, [UNSHARDED, ("y", "x")]),
    ):
        layout = Layout(specs, mesh)
        found = compile_mlir(text, in_layouts=layout, out_layouts=layout, options=SLOW)(*values)
        for have, want in zip(found, expected, strict=True):
            np.testing.assert_array_equal(bits(have.to_jax()), bits(want.to_jax()))


@pytest.mark.parametrize("kind", ["TOTALORDER", "FLOAT", ""])
def test_the_middle_of_a_written_sort(kind: str) -> None:
    """Few places are read. XLA's sum across CPU devices makes 0 of -0: signs are left out."""
    whole, middle = f"tensor<{ROWS}x{COUNT}xf32>", f"tensor<{ROWS}x3xf32>"
    text = program(["f32"], [compare("f32", "LT, %a0, %b0", kind)], None)
    cut = f"%m = stablehlo.slice %s#0 [0:{ROWS}, 500:503] : ({whole}) -> {middle}"
    text = text.replace(f"return %s#0 : {whole}", f"{cut}\nreturn %m : {middle}")
    text = text.replace(f"-> ({whole}) {{", f"-> {middle} {{", 1)
    x = awkward("f32", 3, has_nan=kind == "TOTALORDER")
    (want,) = compile_mlir(text, mesh=ALONE)(x)
    (have,) = compile_mlir(text, in_layouts=Layout([UNSHARDED, "x"], LINE), options=SLOW)(x)
    np.testing.assert_array_equal(have.to_jax(), want.to_jax())
