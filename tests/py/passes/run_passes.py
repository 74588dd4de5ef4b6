"""Modules as text, and passes run on them: what the tests of the passes share."""

from collections.abc import Iterator
from contextlib import contextmanager

from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.passes.base import PassState
from dtensor.passes.functions import main_function
from dtensor.passes.graph import Graph, read_graph
from dtensor.passes.pipeline import Pipeline

MESH = Mesh([("x", 2), ("y", 4)])


@contextmanager
def parsed(text: str) -> Iterator[ir.Module]:
    """The module, while its context is the current one."""
    with make_context(), ir.Location.unknown():
        yield parse_module(text, "test.mlir")


@contextmanager
def graph_of(text: str) -> Iterator[Graph]:
    """The graph of the module's function."""
    with parsed(text) as module:
        yield read_graph(main_function(module))


@contextmanager
def after(passes: str, text: str, mesh: Mesh = MESH) -> Iterator[tuple[ir.Module, PassState]]:
    """The module after these passes, and what they left in their state."""
    with parsed(text) as module:
        state = PassState(mesh=mesh)
        Pipeline.parse(passes).run(module, state)
        yield module, state


def function(signature: str, body: str) -> str:
    """`@main` with `#L[...]` for `#dtensor.layout<@mesh, [...]>`."""
    text = f"func.func @main{signature} {{\n{body}\n}}\n"
    return text.replace("#L[", "#dtensor.layout<@mesh, [").replace("]#", "]>")


def counted_loop(
    start: int = 0,
    end: int = 5,
    step: int = 1,
    *,
    body: str = "%y = stablehlo.tanh %c : tensor<8x4xf32>",
    direction: str = "LT",
) -> str:
    """A loop over `%a` as JAX writes it; `body` makes `%y` of `%c`."""
    return f"""
    %start = stablehlo.constant dense<{start}> : tensor<i32>
    %end = stablehlo.constant dense<{end}> : tensor<i32>
    %step = stablehlo.constant dense<{step}> : tensor<i32>
    %r:2 = stablehlo.while(%i = %start, %c = %a) : tensor<i32>, tensor<8x4xf32>
      cond {{
        %p = stablehlo.compare {direction}, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }} do {{
        {body}
        %n = stablehlo.add %i, %step : tensor<i32>
        stablehlo.return %n, %y : tensor<i32>, tensor<8x4xf32>
      }}
    return %r#1 : tensor<8x4xf32>"""
