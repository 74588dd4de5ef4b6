"""DTensors and `dtensor.numpy` as the array API standard has them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
import dtensor.numpy as dnp
from dtensor.compiler.default_mesh import default_mesh
from tests.py.eager.support import MESH_2X4, MESH_3X2, assert_same, layout, placed

VALUES = np.arange(24, dtype=np.float32).reshape(6, 4)

# https://data-apis.org/array-api/2024.12/API_specification
FUNCTIONS = """
abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2 atanh
bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor
broadcast_arrays broadcast_to can_cast ceil clip concat conj copysign cos cosh count_nonzero
cumulative_prod cumulative_sum diff divide empty empty_like equal exp expand_dims expm1 eye finfo
flip floor floor_divide from_dlpack full full_like greater greater_equal hypot iinfo imag isdtype
isfinite isinf isnan less less_equal linspace log log10 log1p log2 logaddexp logical_and logical_not
logical_or logical_xor matmul matrix_transpose max maximum mean meshgrid min minimum moveaxis
multiply negative nextafter nonzero not_equal ones ones_like permute_dims positive pow prod real
reciprocal remainder repeat reshape result_type roll round searchsorted sign signbit sin sinh sort
sqrt square squeeze stack std subtract sum take take_along_axis tan tanh tensordot tile tril triu
trunc unique_all unique_counts unique_inverse unique_values unstack var vecdot where zeros
zeros_like
""".split()
LINALG = """
cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank
matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
""".split()
CONSTANTS = "e inf nan newaxis pi".split()
TYPES = """
bool complex64 complex128 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64
""".split()


def test_the_namespace_has_all_names() -> None:
    for name in (*FUNCTIONS, *CONSTANTS, *TYPES):
        assert hasattr(dnp, name), name
    for name in LINALG:
        assert hasattr(dnp.linalg, name), name
    assert dnp.__array_api_version__ == jnp.__array_api_version__ >= "2024.12"


def test_arrays_name_their_namespace() -> None:
    x = placed(VALUES, MESH_3X2, "x")
    assert x.__array_namespace__() is dnp
    assert x.__array_namespace__(api_version="2023.12") is dnp
    with pytest.raises(ValueError, match="array API version '1999' is not supported; there are"):
        x.__array_namespace__(api_version="1999")


def test_a_generic_function_works_on_any_array() -> None:
    def standardized(x: dtensor.DTensor) -> dtensor.DTensor:
        xp = x.__array_namespace__()
        scale = xp.ones((1,), dtype=x.dtype, device=x.device)
        made: dtensor.DTensor = (x - xp.mean(x, axis=0)) / xp.std(x, axis=0) * scale
        return made

    x = placed(VALUES, MESH_3X2, "x", "y")
    expected = (VALUES - VALUES.mean(axis=0)) / VALUES.std(axis=0)
    assert_same(standardized(x), expected, 1e-5)


def test_creation_on_a_device_replicates_on_that_mesh() -> None:
    made = dnp.zeros((4, 2), device=MESH_2X4)
    assert made.layout == layout(MESH_2X4, None, None)
    assert dnp.asarray(VALUES, device=MESH_3X2).layout == layout(MESH_3X2, None, None)
    x = placed(VALUES, MESH_3X2, "x")
    with pytest.raises(dtensor.MeshError, match="the device of the result lies on mesh"):
        dnp.add(x, 1, device=MESH_2X4)


def test_functions_of_the_standard_that_numpy_names_otherwise() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    assert_same(dnp.concat([x, x]), np.concatenate([VALUES, VALUES]))
    assert_same(dnp.permute_dims(x, (1, 0)), VALUES.T)
    assert_same(dnp.astype(x, dnp.int32), VALUES)
    assert_same(dnp.vecdot(x, x), (VALUES * VALUES).sum(-1))
    assert_same(dnp.matrix_transpose(x), VALUES.T)
    assert_same(dnp.cumulative_sum(x, axis=0), VALUES.cumsum(axis=0))
    assert_same(dnp.unstack(x), list(VALUES))
    assert_same(dnp.linalg.vector_norm(x), np.linalg.norm(VALUES), 1e-5)
    assert_same(dnp.bitwise_invert(dnp.astype(x, dnp.int8)), ~VALUES.astype(np.int8))


def test_arrays_go_to_other_libraries_and_come_from_them() -> None:
    x = placed(VALUES, MESH_3X2)
    np.testing.assert_array_equal(np.from_dlpack(x), VALUES)
    with pytest.raises(BufferError, match="cannot be exported: no device holds all of it"):
        np.from_dlpack(placed(VALUES, MESH_3X2, "x"))
    made = dnp.from_dlpack(VALUES, layout=layout(MESH_3X2, "x", None))
    assert made.layout == layout(MESH_3X2, "x", None)
    assert_same(made, VALUES)
    with pytest.raises(ValueError, match="the shards of a DTensor are copies"):
        dnp.from_dlpack(VALUES, device=MESH_3X2, copy=False)


def test_info() -> None:
    info = dnp.__array_namespace_info__()
    assert info.capabilities()["data-dependent shapes"] is False
    assert info.capabilities()["boolean indexing"] is False
    assert info.default_device() is None
    assert info.devices() == []
    assert info.default_dtypes()["real floating"] == np.float32
    assert set(info.dtypes(kind="bool")) == {"bool"}
    with default_mesh(MESH_3X2):
        assert info.default_device() == MESH_3X2
        assert info.devices() == [MESH_3X2]


def test_scalars_convert_to_python() -> None:
    assert [1, 2, 3][placed(np.int32(1), MESH_3X2)] == 2
    with pytest.raises(TypeError, match="only integer scalars can be an index"):
        [1, 2, 3][placed(np.float32(1), MESH_3X2)]
