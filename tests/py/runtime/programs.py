"""Hand-written local programs for the runtime's tests."""

from collections.abc import Sequence

from jax.interpreters import mlir as jax_mlir
from jaxlib.mlir import ir

from dtensor.compiler.program import ArrayInfo, CompiledProgram
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import bytecode_of


def bytecode(text: str) -> bytes:
    """The module `text` as MLIR bytecode."""
    context = jax_mlir.make_ir_context()
    with context:
        return bytecode_of(ir.Module.parse(text))


def program(
    text: str,
    mesh: Mesh,
    args: Sequence[tuple[tuple[int, ...], Layout]],
    results: Sequence[tuple[tuple[int, ...], Layout]],
    donated: tuple[int, ...] = (),
    dtype: str = "float32",
) -> CompiledProgram:
    """The program of a local module and of the global shapes and layouts of its border."""
    return CompiledProgram(
        bytecode(text),
        mesh,
        tuple(ArrayInfo(shape, dtype, layout) for shape, layout in args),
        tuple(ArrayInfo(shape, dtype, layout) for shape, layout in results),
        donated,
    )


def sum_over_rows(groups: str, shape: str, local: str) -> str:
    """A module that sums its argument over groups of devices.

    Args:
        groups: replica groups, `[[0, 1], [2, 3]]`.
        shape: shape of the groups, `2x2`.
        local: type of a shard, `2x4xf32`.
    """
    return f"""
    module @step {{
      func.func private @twice(%a: tensor<{local}>) -> tensor<{local}> {{
        %b = stablehlo.add %a, %a : tensor<{local}>
        return %b : tensor<{local}>
      }}
      func.func public @main(%a: tensor<{local}>) -> tensor<{local}> {{
        %b = func.call @twice(%a) : (tensor<{local}>) -> tensor<{local}>
        %c = "stablehlo.all_reduce"(%b) <{{
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
          use_global_device_ids, replica_groups = dense<{groups}> : tensor<{shape}xi64>}}> ({{
          ^bb0(%p: tensor<f32>, %q: tensor<f32>):
            %z = stablehlo.add %p, %q : tensor<f32>
            stablehlo.return %z : tensor<f32>
        }}) : (tensor<{local}>) -> tensor<{local}>
        return %c : tensor<{local}>
      }}
    }}"""
