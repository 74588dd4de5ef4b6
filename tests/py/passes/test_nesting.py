"""What stands deep in the program, or calls deep: read, or refused with a place."""

from __future__ import annotations

import pytest

from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.diagnostics import LocatedError
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.passes.base import PassState
from dtensor.passes.pipeline import Pipeline
from dtensor.passes.pipelines import pipeline_text

TYPE = "tensor<8x4xf32>"


def ifs(depth: int) -> str:
    inner = f"%s = stablehlo.sine %x : {TYPE}\nstablehlo.return %s : {TYPE}\n"
    for k in range(depth):
        end = "stablehlo.return" if k < depth - 1 else "return"
        inner = (
            f'%r{k} = "stablehlo.if"(%p) ({{\n{inner}}}, {{ stablehlo.return %x : {TYPE} }}) '
            f": (tensor<i1>) -> {TYPE}\n{end} %r{k} : {TYPE}\n"
        )
    return f"func.func @main(%x: {TYPE}, %p: tensor<i1>) -> {TYPE} {{\n{inner}}}\n"


def composites(depth: int) -> str:
    functions = [f"func.func private @f{depth}(%x: {TYPE}) -> {TYPE} {{ return %x : {TYPE} }}"]
    for k in range(depth):
        kind = "@main" if k == 0 else f"private @f{k}"
        functions.append(
            f"func.func {kind}(%x: {TYPE}) -> {TYPE} {{\n"
            f'%0 = stablehlo.composite "a.b" %x {{decomposition = @f{k + 1}}} : ({TYPE}) -> {TYPE}'
            f"\nreturn %0 : {TYPE} }}"
        )
    return "\n".join(functions)


def compile_text(text: str) -> None:
    state = PassState(mesh=Mesh([("x", 2)]))
    with make_context(), ir.Location.unknown():
        Pipeline.parse(pipeline_text("dtensor-spmd")).run(parse_module(text, "deep.mlir"), state)


@pytest.mark.parametrize("depth", [350, 1500])
def test_regions_too_deep_for_python_are_refused_where_they_are_deepest(depth: int) -> None:
    with pytest.raises(LocatedError) as refused:
        compile_text(ifs(depth))
    text = str(refused.value)
    assert text.startswith(f"deep.mlir:{depth + 2}:")
    assert f": {depth + 2} regions stand in each other here, more than " in text
    assert "; nest fewer, or raise it by sys.setrecursionlimit" in text


def test_regions_of_some_depth_and_calls_of_any_are_read() -> None:
    compile_text(ifs(60))
    compile_text(composites(1200))
