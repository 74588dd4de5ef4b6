"""What `jax.export` wrote is compiled from its bytes, and called in a function."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import dtensor
from dtensor import CompileError, Layout
from dtensor.runtime.placement import jax_mesh

MESH = dtensor.create_mesh([("x", 2), ("y", 4)])
ROWS = Layout(["x", None], MESH)
A = np.linspace(-1, 1, 8 * 12, dtype=np.float32).reshape(8, 12)
B = np.linspace(-2, 1, 12 * 20, dtype=np.float32).reshape(12, 20)


def layer(a: Any, b: Any) -> Any:
    return jnp.tanh(a @ b)


def sharded() -> Any:
    shardings = [NamedSharding(jax_mesh(MESH), spec) for spec in (P("x"), P(None, "y"))]
    return export.export(jax.jit(layer, in_shardings=tuple(shardings)))(A, B)


def test_an_artifact_of_a_sharded_function_keeps_its_shardings() -> None:
    (found,) = dtensor.compile_mlir(sharded().mlir_module_serialized, mesh=MESH)(A, B)
    assert found.layout.short() == '[{"x"}, {"y"}]'
    np.testing.assert_allclose(found.to_jax(), np.tanh(A @ B), rtol=1e-5, atol=1e-6)


def test_a_sharded_function_is_called_where_a_mesh_is_set() -> None:
    function = dtensor.jit(sharded().call, mesh=MESH)
    with pytest.raises(CompileError, match=r"layer was exported for 8 devices.* jax\.set_mesh"):
        function(A, B)
    with jax.set_mesh(jax_mesh(MESH)):
        found = function(A, B)
    np.testing.assert_allclose(found.to_jax(), np.tanh(A @ B), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rows", [8, 6, 2])
def test_a_function_of_any_number_of_rows_is_called_with_one(rows: int) -> None:
    (size,) = export.symbolic_shape("n", constraints=["n >= 4"])
    arguments = jax.ShapeDtypeStruct((size, 12), A.dtype), B
    exported = export.export(jax.jit(lambda a, b: jnp.tanh(a @ b) / a.shape[0]))(*arguments)
    function = dtensor.jit(lambda a, b: exported.call(a, b) * 2, in_layouts=(ROWS, None))
    if rows < 4:
        with pytest.raises(ValueError, match="do not match the symbolic shape constraint"):
            function(A[:rows], B)
        return
    found = function(A[:rows], B)
    assert found.layout == ROWS
    np.testing.assert_allclose(found.to_jax(), np.tanh(A[:rows] @ B) / rows * 2, rtol=1e-5)
