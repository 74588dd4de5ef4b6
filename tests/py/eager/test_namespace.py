"""`dtensor.numpy`: a broad sample of jax.numpy's functions, against NumPy's."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
import dtensor.numpy as dnp
from dtensor import UNSHARDED, DTensor, LayoutError
from dtensor.compiler.default_mesh import default_mesh
from dtensor.compiler.eager.calls import programs
from tests.py.eager.support import MESH_2X4, MESH_3X2, assert_same, layout, message, placed, whole

VALUES = (np.arange(24, dtype=np.float32) * 7 % 11 - 4.5).reshape(6, 4)
COUNTS = (np.arange(24, dtype=np.int32) * 5 % 7).reshape(6, 4)
SQUARE = np.array([[4, 1, 0], [1, 5, 2], [0, 2, 6]], np.float32)

# Expressions in x (floats 6x4), n (integers 6x4), s (a positive definite 3x3) and xp, the library.
EXPRESSIONS = """
xp.abs(x) | xp.negative(n) | xp.sign(x) | xp.sqrt(xp.abs(x)) | xp.exp(x) | xp.log(xp.abs(x))
xp.sin(x) | xp.tanh(x) | xp.floor(x) | xp.rint(x) | xp.isnan(x) | xp.signbit(x) | xp.logical_not(n)
xp.invert(n) | xp.real(x) | xp.angle(x) | xp.nan_to_num(x / (n > 0), posinf=9.0, neginf=-9.0)
xp.round(x, 0) | xp.clip(x, -1, 2) | xp.i0(x) | xp.add(x, n) | xp.subtract(x, 1)
xp.multiply(x, 2.5) | xp.divide(n, 4) | xp.floor_divide(n, 2) | xp.remainder(x, 3) | xp.fmod(x, 2)
xp.divmod(n, 3) | xp.power(x, 3) | xp.float_power(x, 2) | xp.maximum(x, 0) | xp.minimum(x, n)
xp.arctan2(x, n + 1) | xp.logaddexp(x, 0.0) | xp.gcd(n, 6) | xp.equal(x, n) | xp.less(x, 0)
xp.greater_equal(x, n) | xp.isclose(x, x + 1e-9) | xp.modf(x) | xp.logical_and(n, x > 0)
xp.bitwise_or(n, 8) | xp.left_shift(n, 2) | xp.ldexp(x, n) | xp.sum(x)
xp.sum(n, axis=(0, 1), keepdims=True) | xp.prod(n + 1, axis=1) | xp.mean(x, axis=1)
xp.std(x, axis=0) | xp.var(x, ddof=1) | xp.max(x, axis=0) | xp.min(x) | xp.ptp(x, axis=0)
xp.median(x, axis=0) | xp.average(x, axis=1) | xp.nansum(x) | xp.all(n > -1, axis=1)
xp.any(n == 3) | xp.argmax(x, axis=0) | xp.argmin(n, axis=1) | xp.count_nonzero(n)
xp.cumsum(x, axis=0) | xp.cumprod(n[:3], axis=1) | xp.diff(x, axis=1) | xp.trapezoid(x)
xp.quantile(x, 0.25, axis=0) | xp.histogram(x, bins=4, range=(-5, 6))[0]
xp.digitize(x, xp.array([0, 2])) | xp.cov(x) | xp.reshape(x, (4, 6)) | xp.ravel(x) | xp.transpose(x)
xp.moveaxis(x, 0, 1) | xp.squeeze(x[:1]) | xp.expand_dims(x, (0, 2)) | xp.atleast_3d(x)
xp.broadcast_to(x[0], (3, 4)) | xp.flip(x, axis=0) | xp.rot90(x) | xp.roll(x, (1, -1), axis=(0, 1))
xp.repeat(x, 2, axis=0) | xp.tile(x, (2, 1)) | xp.repeat(n, [1, 0, 2, 1], axis=1)
xp.pad(x, ((1, 0), (0, 2)), constant_values=7.0) | xp.concatenate([x, n], axis=1)
xp.stack([x, x], axis=1) | xp.vstack([x, x]) | xp.dstack([x, x]) | xp.append(x, n) | xp.split(x, 3)
xp.array_split(x, 4, axis=0) | xp.insert(x, 1, 9, axis=1) | xp.delete(x, 2, axis=0)
xp.take(x, xp.array([0, 3]), axis=1) | xp.sort(x, axis=0)
xp.take_along_axis(x, xp.argsort(x, axis=1), axis=1) | xp.argsort(n, axis=0, stable=True)
xp.lexsort((n[:, 0], n[:, 1])) | xp.searchsorted(xp.sort(x[:, 0]), x[0]) | xp.where(x > 0, x, n)
xp.select([x > 2, x > 0], [x, n], 0) | xp.choose(n[0] % 2, [x[0], x[1]], mode='clip') | xp.tril(x)
xp.triu(x, 1) | xp.diag(x[0]) | xp.diagonal(x) | xp.trace(x) | xp.meshgrid(x[0], n[:, 0])
xp.dot(x, x.T) | xp.matmul(x.T, n) | xp.inner(x, n) | xp.outer(x[0], n[1]) | xp.vdot(x, n)
xp.tensordot(x, n, axes=([0], [0])) | xp.einsum('ij,kj->ik', x, n) | xp.cross(s, s[::-1])
xp.kron(x[:2], n[:1]) | xp.convolve(x[0], n[0]) | xp.polyval(x[0], n) | xp.gradient(x, axis=1)
xp.interp(x, xp.array([-5, 0, 6]), xp.array([0, 1, 4])) | xp.isin(n, xp.array([2, 5]))
xp.linalg.norm(x, axis=0) | xp.linalg.inv(s) | xp.linalg.solve(s, x[:3]) | xp.linalg.cholesky(s)
xp.linalg.eigvalsh(s) | xp.linalg.matrix_power(s, 3) | xp.linalg.multi_dot([x, x.T, x])
xp.fft.fft(x, axis=1) | xp.fft.rfft(x, axis=0) | xp.fft.fftshift(x) | xp.zeros_like(x)
xp.full_like(x, 2.5) | xp.apply_along_axis(lambda v: v * 2, 1, x) | xp.add.reduce(x, axis=0)
xp.add.accumulate(n, axis=1) | xp.multiply.outer(x[0], n[0])
"""
CASES = [case.strip() for case in EXPRESSIONS.replace("\n", "|").split("|") if case.strip()]
# A mesh and a layout for each case, in turn.
PLACES = [
    (MESH_3X2, ("x", "y")),
    (MESH_2X4, (UNSHARDED, "y")),
    (MESH_3X2, (UNSHARDED, "y")),
    (MESH_2X4, ("x", "y")),
    (MESH_3X2, ("x", UNSHARDED)),
]


@pytest.mark.sweep
@pytest.mark.parametrize("case", CASES)
def test_functions_give_what_numpy_gives(case: str) -> None:
    mesh, specs = PLACES[CASES.index(case) % len(PLACES)]
    ours = {
        "xp": dnp,
        "x": placed(VALUES, mesh, *specs),
        "n": placed(COUNTS, mesh, *specs),
        "s": placed(SQUARE, mesh),
    }
    theirs = {"xp": np, "x": VALUES, "n": COUNTS, "s": SQUARE}
    with default_mesh(mesh), np.errstate(all="ignore"):
        got, expected = eval(case, ours), eval(case, theirs)
    assert_same(got, expected, 2e-5)


def test_the_sample_is_broad() -> None:
    assert len(CASES) > 130


@pytest.mark.parametrize(
    "case",
    [
        "ones((6, 4))",
        "zeros((6, 4), dtype=int)",
        "full((6, 4), 2.5)",
        "eye(6, 4)",
        "tri(6, 4)",
        "identity(6)",
        "empty((6, 4)) * 0",
        "indices((6, 4))[0]",
        "array(values)",
        "asarray(values)",
        "array(values.tolist())",
    ],
)
def test_creation_takes_a_layout(case: str) -> None:
    values = VALUES
    name, _, rest = case.partition("(")
    rest, _, after = rest.rpartition(")")
    wanted = layout(MESH_3X2, "x", "y")
    if name == "indices":
        wanted = layout(MESH_3X2, UNSHARDED, "x", "y")
    made = eval(f"dnp.{name}({rest}, layout=wanted){after.replace('[0]', '')}")
    assert made.layout == wanted
    expected = eval(f"np.{name}({rest})", {"np": np, "values": values})
    assert_same(made, expected * 0 if name == "empty" else expected)


@pytest.mark.parametrize(
    "case", ["arange(6)", "linspace(0, 1, 6)", "arange(2.0, 8.0)", "hanning(6)"]
)
def test_creation_of_one_dimension(case: str) -> None:
    wanted = layout(MESH_3X2, "x")
    made = eval(f"dnp.{case[:-1]}, layout=wanted)")
    assert made.layout == wanted
    assert_same(made, eval(f"np.{case}"), 1e-5)


def test_without_layout_and_mesh_creation_is_an_error_that_says_so() -> None:
    for make in (lambda: dnp.ones((2, 3)), lambda: dnp.array([1.0]), lambda: dnp.sum(VALUES)):
        text = message(make, LayoutError)
        assert text.endswith("give layout=, or call it inside of dtensor.default_mesh(mesh)")


def test_any_function_takes_a_layout_for_its_result() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    assert dnp.exp(x, layout=layout(MESH_3X2, "y", UNSHARDED)).layout == layout(
        MESH_3X2, "y", UNSHARDED
    )
    halves = dnp.split(x, 2, layout=layout(MESH_3X2, "x", UNSHARDED))
    assert [half.layout.sharding_specs for half in halves] == [["x", "unsharded"]] * 2


def test_array_of_dtensors_lists_and_scalars() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    assert dnp.asarray(x) is x
    assert dnp.array(x) is not x
    assert dnp.array(x, dtype=np.int8).dtype == np.int8
    assert dnp.asarray(x, layout=layout(MESH_3X2, "y", UNSHARDED)).layout == layout(
        MESH_3X2, "y", UNSHARDED
    )
    assert_same(dnp.array([x[0], x[1]]), VALUES[:2])
    assert dnp.array(x[0], ndmin=3).shape == (1, 1, 4)
    with default_mesh(MESH_2X4):
        assert_same(dnp.array([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]]))
        assert dnp.array(2.5).dtype == np.float32
        text = message(lambda: dnp.array([2**40]), OverflowError)
        assert text.startswith("1099511627776 is outside of int32")
    with pytest.raises(ValueError, match="order='F'"):
        dnp.array(x, order="F")
    with pytest.raises(LayoutError, match="got layout= and device="):
        dnp.zeros(3, layout=layout(MESH_3X2, "x"), device=MESH_3X2)
    with pytest.raises(TypeError, match="the device of a DTensor is its mesh"):
        dnp.zeros(3, device="cpu")


@pytest.mark.parametrize("make", [dnp.asarray, dnp.array])
def test_numbers_become_arrays_that_give_way(make: Any) -> None:
    half = placed(np.ones(4, jnp.bfloat16), MESH_2X4, "y")
    where = layout(MESH_2X4)
    for number in (2.0, 2):
        made = make(number, layout=where)
        assert made.weak_type
        assert made.dtype == jnp.asarray(number).dtype
        assert (half * made).dtype == jnp.bfloat16
        assert make(made).weak_type
    assert make(jnp.asarray(2.0), layout=where).weak_type
    with dtensor.default_mesh(MESH_2X4):
        assert make(2.0).weak_type
    for strong in (
        make(2.0, dtype=jnp.float32, layout=where),
        make(make(2.0, layout=where), dtype=jnp.float32),
        make(np.float32(2), layout=where),
        make(True, layout=where),
        make([2.0], layout=layout(MESH_2X4, None)),
    ):
        assert not strong.weak_type
    assert dnp.array(2.0, ndmin=1, layout=layout(MESH_2X4, None)).weak_type
    assert whole(make(2.0, layout=where)) == 2


def test_facts_types_and_constants_are_plain() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    assert dnp.pi == np.pi
    assert dnp.newaxis is None
    assert dnp.float32 is jnp.float32
    assert dnp.ndarray is DTensor
    assert dnp.finfo(x.dtype).bits == 32
    assert dnp.shape(x) == (6, 4)
    assert dnp.broadcast_shapes((3, 1), (4,)) == (3, 4)
    assert dnp.result_type(np.int8, np.float32) == dnp.result_type(x, 1) == np.float32
    assert dnp.promote_types("int8", "int16") == np.int16
    assert dnp.isdtype(x.dtype, "real floating")
    assert dnp.issubdtype(x.dtype, np.floating)
    assert dnp.einsum_path("ij,jk->ik", x, x.T)[0] == [(0, 1)]
    assert x[dnp.s_[1:3]].shape == (2, 4)


def test_what_would_make_arrays_on_no_mesh_is_not_there() -> None:
    for name in ("r_", "c_", "mgrid", "load", "save", "frombuffer", "vectorize"):
        text = message(lambda name=name: getattr(dnp, name), AttributeError)  # type: ignore[misc]
        assert text.startswith(f"dtensor.numpy.{name} would make arrays that lie on no mesh; use")
        assert name not in dir(dnp)
    with pytest.raises(AttributeError, match=r"module 'dtensor.numpy' has no attribute 'summ'"):
        getattr(dnp, "summ")  # noqa: B009
    with pytest.raises(AttributeError, match=r"'dtensor.numpy.linalg' has no attribute 'nrom'"):
        getattr(dnp.linalg, "nrom")  # noqa: B009


def test_names_are_those_of_jax_numpy() -> None:
    ours = {name for name in dir(dnp) if not name.startswith("_")}
    theirs = {name for name in dir(jnp) if not name.startswith("_")}
    assert ours < theirs
    assert len(theirs - ours) < 20
    for name in ours:
        getattr(dnp, name)
    assert dnp.exp.__name__ == "exp"
    assert "exponential" in dnp.exp.__doc__
    assert repr(dnp.exp) == "<function exp for DTensors>"
    assert set(dnp.__all__) == ours


def test_in_traced_functions_it_is_jax_numpy() -> None:
    def step(x: Any) -> Any:
        made = dnp.ones((6, 4), layout=layout(MESH_3X2, "x", "y"))
        return dnp.sum(x + made, axis=0), dnp.zeros(3)

    x = placed(VALUES, MESH_3X2, "x", "y")
    total, zeros = dtensor.jit(step)(x)
    assert_same(total, (VALUES + 1).sum(axis=0))
    assert_same(zeros, np.zeros(3))
    plain = jax.jit(lambda v: dnp.sum(v, axis=0))(VALUES)
    assert isinstance(plain, jax.Array)
    assert_same(dtensor.jit(dnp.matmul)(x, placed(VALUES.T, MESH_3X2)), VALUES @ VALUES.T, 1e-5)


def test_settings_are_part_of_what_a_program_is_for() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    assert_same(dnp.sum(x, axis=0), VALUES.sum(axis=0))
    assert_same(dnp.sum(x, axis=1), VALUES.sum(axis=1))
    assert dnp.clip(placed(COUNTS, MESH_3X2), 0, 3).dtype == np.int32
    assert dnp.clip(placed(COUNTS, MESH_3X2), 0.0, 3.0).dtype == np.float32
    assert_same(dnp.power(x, 2), VALUES**2)
    assert_same(dnp.power(x, 3), VALUES**3, 1e-5)


def test_a_number_among_arrays_does_not_compile_again() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    dnp.where(x > 0, x, 0.5)
    before = len(programs)
    for number in (1.5, 2.5, -0.0):
        assert_same(dnp.where(x > 0, x, number), np.where(VALUES > 0, VALUES, number))
    assert len(programs) == before


def test_integers_that_do_not_fit_are_errors() -> None:
    x = placed(COUNTS.astype(np.int8), MESH_3X2, "x", "y")
    assert_same(dnp.maximum(x, 3), np.maximum(COUNTS, 3))
    text = message(lambda: dnp.maximum(x, 300), OverflowError)
    assert text == (
        "300 is outside of int8, -128 to 127; cast the array first, with x.astype(dtype)"
    )
    assert_same(dnp.where(x > 3, x, placed(COUNTS, MESH_3X2)).at[0, 0].set(300)[0, 0], 300)
    assert dnp.add(x.astype(np.uint32), 3_000_000_000).dtype == np.uint32


def test_arguments_that_cannot_be_kept_are_errors() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    text = message(lambda: dnp.sum(x, axis={1, 2}), TypeError)
    assert text == (
        "sum: argument 'axis' of type set is neither an array nor hashable, so no program can be "
        "kept for it"
    )
    text = message(lambda: dnp.sum(x, axis=7), ValueError)
    assert text == "sum: axis 7 is out of bounds for array of dimension 2"
    text = message(lambda: dnp.sum(x, out=VALUES), TypeError)
    assert text == "sum cannot write into out=: no DTensor changes; use what it returns"
    with pytest.raises(AttributeError, match="function sum has no attribute 'reduce'"):
        getattr(dnp.sum, "reduce")  # noqa: B009
    assert isinstance(dnp.matmul(x, whole(x).T.astype(int)[:, :2] * 0 + 1), DTensor)
