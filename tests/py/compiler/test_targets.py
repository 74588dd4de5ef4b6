"""Targets as text, what fits them, and the answers where nothing can compile for them."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable
from importlib import metadata
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
from dtensor.compiler.targets import executable
from dtensor.compiler.targets.compilers import defaults, explained, first_line
from dtensor.compiler.targets.gpu import target_config
from dtensor.compiler.targets.kinds import GPU_KINDS
from dtensor.compiler.targets.libtpu import check_libtpu, fitting_release
from dtensor.compiler.targets.lowering import lower_for
from dtensor.compiler.targets.target import Target, check_mesh, take_target

GRID = dtensor.Mesh([("x", 2), ("y", 4)])


@pytest.mark.parametrize(
    ("text", "platform", "kind", "shape", "devices"),
    [
        ("tpu:v5e:2x4", "tpu", "v5e", (2, 4), 8),
        ("tpu:v5e:16x16", "tpu", "v5e", (16, 16), 256),
        ("tpu:v6e:1x1", "tpu", "v6e", (1, 1), 1),
        ("tpu:v3:4x2", "tpu", "v3", (4, 2), 16),  # two devices per chip
        ("tpu:v4:2x2x2", "tpu", "v4", (2, 2, 2), 8),  # one
        ("tpu:v5p:28x16x20", "tpu", "v5p", (28, 16, 20), 8960),  # largest, and turned
        ("tpu:v7x:2x2x1", "tpu", "v7x", (2, 2, 1), 8),
        ("gpu:a100:8", "gpu", "a100", (1, 8), 8),
        ("gpu:h100:2x8", "gpu", "h100", (2, 8), 16),
        ("gpu:h200:3x4", "gpu", "h200", (3, 4), 12),
    ],
)
def test_the_written_form(
    text: str, platform: str, kind: str, shape: tuple[int, ...], devices: int
) -> None:
    target = Target.parse(text)
    assert target == Target(platform, kind, shape)
    assert target.device_count == devices
    assert str(target) == text
    assert Target.parse(f" {text.upper()} ") == target


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "target '' is not three words with : between; a target is"),
        ("tpu", "target 'tpu' is not three words with : between"),
        ("tpu:v5e", "is not three words with : between"),
        ("tpu:v5e:2x4:1", "is not three words with : between"),
        ("npu:v5e:2x4", "there is no platform 'npu'; a target is"),
        ("tpu:v9:2x4", "there is no TPU 'v9'; there are v2, v3, v4, v5e, v5p, v6e, v7x"),
        ("tpu:a100:8", "there is no TPU 'a100'"),
        ("gpu:v5e:2x4", "there is no GPU 'v5e'; there are a100, h100, h200"),
        ("tpu:v5e:", "'' is not a size; write numbers with x between"),
        ("tpu:v5e:2x", "'2x' is not a size"),
        ("tpu:v5e:2*4", r"'2\*4' is not a size"),
        ("tpu:v5e:-2x4", "'-2x4' is not a size"),
        ("tpu:v5e:2x4_twisted", "'2x4_twisted' is not a size"),
        ("tpu:v5e:٢x٤", "is not a size"),
        ("tpu:v5e:8", "8 is no size; a slice of v5e has 2 dimensions, as in 2x4"),
        ("tpu:v5e:2x2x2", "2x2x2 is no size; a slice of v5e has 2 dimensions"),
        ("tpu:v4:2x2", "2x2 is no size; a slice of v4 has 3 dimensions, as in 2x2x4"),
        ("tpu:v5e:0x4", "0x4 has the size 0; each must be 1 or more"),
        ("tpu:v5e:16x32", "the largest v5e is 16x16"),
        ("tpu:v5p:21x21x2", "the largest v5p is 16x20x28"),
        ("gpu:a100:0", "the size 0"),
        ("gpu:a100:2x8x1", "give the number of devices, or hosts x devices"),
        ("gpu:h100:8x64", "the largest h100 is 1024x16"),
        ("gpu:h100:9999999999999999999999x8", "the largest h100 is 1024x16"),
    ],
)
def test_a_malformed_target(text: str, message: str) -> None:
    with pytest.raises(dtensor.CompileError, match=message) as raised:
        Target.parse(text)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("target", [3, b"tpu:v5e:2x4", ["tpu:v5e:2x4"], GRID])
def test_a_target_of_another_type(target: Any) -> None:
    with pytest.raises(dtensor.CompileError, match=f"target is of type {type(target).__name__};"):
        Target.of(target)


def test_no_target() -> None:
    assert Target.of(None) is None


def test_a_mesh_has_all_devices_of_the_target_or_a_number_that_divides_them() -> None:
    target = Target.parse("tpu:v5e:2x4")
    for size in (1, 2, 4, 8):
        check_mesh(dtensor.Mesh([("x", size)]), target)
    for size in (3, 16):
        with pytest.raises(
            dtensor.CompileError,
            match=f"mesh x={size} of {size} devices does not fit tpu:v5e:2x4, which has 8; make",
        ):
            check_mesh(dtensor.Mesh([("x", size)]), target)


def product(**options: Any) -> Any:
    layouts = (dtensor.Layout(["x", "y"], GRID), dtensor.Layout(["y", None], GRID))
    return dtensor.jit(lambda a, b: a @ b, in_layouts=layouts, **options)


ARGS = (jax.ShapeDtypeStruct((16, 32), jnp.float32), jax.ShapeDtypeStruct((32, 24), jnp.float32))


def test_lowering_for_a_target_needs_no_compiler_and_no_devices() -> None:
    mesh = dtensor.Mesh([("x", 16), ("y", 16)])  # more than there are here
    layout = dtensor.Layout(["x", "y"], mesh)
    lowered = dtensor.jit(lambda a: a.sum(1), in_layouts=layout).lower(
        jax.ShapeDtypeStruct((64, 32), jnp.float32), target="tpu:v5e:16x16"
    )
    assert "all_reduce" in lowered.as_text()


def test_a_bare_partition_spec_means_the_mesh_that_is_not_here() -> None:
    mesh = dtensor.Mesh([("x", 16), ("y", 16)])

    def double(a: Any) -> Any:
        return jax.lax.with_sharding_constraint(2 * a, jax.sharding.PartitionSpec("y", "x"))

    lowered = dtensor.jit(double, in_layouts=dtensor.Layout(["x", "y"], mesh)).lower(
        jax.ShapeDtypeStruct((64, 32), jnp.float32), target="tpu:v5e:16x16"
    )
    assert "collective_permute" in lowered.as_text()


def test_operations_are_lowered_for_the_target() -> None:
    layout = dtensor.Layout(["x", None, None], GRID)
    cholesky = dtensor.jit(jnp.linalg.cholesky, in_layouts=layout)
    struct = jax.ShapeDtypeStruct((4, 16, 16), jnp.float32)
    assert "lapack_" in cholesky.lower(struct).as_text()
    assert "lapack_" not in cholesky.lower(struct, target="tpu:v5e:2x4").as_text()


@pytest.mark.parametrize("target", ["tpu:v5e:2x4", "gpu:h100:8", Target("tpu", "v5e", (2, 4))])
def test_missing_compilers_are_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, target: str | Target
) -> None:
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    lowered = product().lower(*ARGS, target=target)
    extra = {"tpu": "tpu", "gpu": "cuda12-local"}[str(target)[:3]]
    command = f'pip install "jax[{extra}]=={jax.__version__}"'
    with pytest.raises(dtensor.NotFoundError, match=re.escape(command)):
        lowered.compile()


@pytest.fixture
def libtpu(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Makes a release of libtpu appear installed, beside a jax made with another."""

    def install(found: str, wanted: str) -> None:
        version = metadata.version
        monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
        monkeypatch.setattr(
            metadata, "version", lambda name: found if name == "libtpu" else version(name)
        )
        pin = f'libtpu=={wanted}; extra == "tpu"'
        monkeypatch.setattr(metadata, "requires", lambda name: ['requests; extra == "tpu"', pin])

    return install


@pytest.mark.parametrize("found", ["0.0.51", "0.0.4", "0.0.420", "0.0.41.1"])
def test_a_libtpu_that_does_not_fit_is_refused_at_once(
    found: str, libtpu: Callable[[str, str], None]
) -> None:
    libtpu(found, "0.0.42.*")
    message = rf"needs libtpu 0\.0\.42, which jax .* was made with, and libtpu {found} is"
    with pytest.raises(dtensor.NotFoundError, match=message):
        product().lower(*ARGS, target="tpu:v5p:2x2x2").compile()


@pytest.mark.parametrize("found", ["0.0.42", "0.0.42.1"])
def test_a_libtpu_that_fits_is_taken(found: str, libtpu: Callable[[str, str], None]) -> None:
    libtpu(found, "0.0.42.*")
    check_libtpu(Target.parse("tpu:v5p:2x2x2"))
    assert fitting_release() == "0.0.42"


def test_a_libtpu_that_is_named_is_taken_as_it_is(
    libtpu: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    libtpu("0.0.51", "0.0.42.*")
    monkeypatch.setenv("TPU_LIBRARY_PATH", "libtpu.so")
    check_libtpu(Target.parse("tpu:v5p:2x2x2"))


def test_jax_says_which_libtpu_it_was_made_with() -> None:
    assert re.fullmatch(r"0\.0\.\d+", str(fitting_release()))


def test_a_malformed_target_is_refused_before_anything_is_traced() -> None:
    def refuse(a: jax.Array) -> jax.Array:
        raise AssertionError("traced")

    function = dtensor.jit(refuse, in_layouts=dtensor.Layout(["x"], GRID))
    with pytest.raises(dtensor.CompileError, match="there is no TPU 'v9'"):
        function.lower(jax.ShapeDtypeStruct((8,), jnp.float32), target="tpu:v9:2x4")


@pytest.mark.parametrize("target", ["tpu:v5e:4x4", "gpu:a100:8"])
def test_a_mesh_that_does_not_fit_is_refused_while_lowering(target: str) -> None:
    mesh = dtensor.Mesh([("x", 3)])
    function = dtensor.jit(jnp.sum, in_layouts=dtensor.Layout(["x"], mesh))
    with pytest.raises(dtensor.CompileError, match=f"does not fit {target}"):
        function.lower(jax.ShapeDtypeStruct((9,), jnp.float32), target=target)


MODULE = """
    func.func public @main(%a: tensor<16x8xf32>) -> tensor<16x8xf32> {
      %0 = stablehlo.add %a, %a : tensor<16x8xf32>
      return %0 : tensor<16x8xf32>
    }"""


def test_modules_take_a_target_too() -> None:
    lowered = dtensor.lower_mlir(MODULE, mesh=GRID, target="gpu:h100:8")
    assert "stablehlo.add" in lowered.as_text()
    with pytest.raises(dtensor.CompileError, match="does not fit gpu:h100:6"):
        dtensor.lower_mlir(MODULE, mesh=GRID, target="gpu:h100:6")
    with pytest.raises(dtensor.CompileError, match="there is no GPU 'b12'"):
        dtensor.compile_mlir(MODULE, mesh=GRID, target="gpu:b12:8")


def print_sum(a: jax.Array) -> jax.Array:
    jax.debug.print("{}", a.sum())
    return a


def call_back(a: Any) -> Any:
    return jax.pure_callback(np.asarray, jax.ShapeDtypeStruct(a.shape, a.dtype), a)


@pytest.mark.parametrize("function", [print_sum, call_back])
def test_python_functions_are_refused_with_the_line_that_calls_them(function: Any) -> None:
    step = dtensor.jit(function, in_layouts=dtensor.Layout(["x"], GRID))
    line = function.__code__.co_firstlineno + 1
    with pytest.raises(
        dtensor.CompileError, match=rf"test_targets\.py:{line}: \w+ calls a Python function, which"
    ):
        step.lower(jax.ShapeDtypeStruct((8,), jnp.float32), target="tpu:v5e:2x4")


def eigenvalues(a: Any) -> Any:
    return jnp.linalg.eigvals(jnp.sin(a))


def test_an_operation_that_jax_cannot_lower_for_the_target() -> None:
    step = dtensor.jit(eigenvalues, in_layouts=dtensor.Layout(["x", None], GRID))
    line = eigenvalues.__code__.co_firstlineno + 1
    with pytest.raises(
        dtensor.CompileError, match=rf"test_targets\.py:{line}: tpu:v5e:2x4 cannot do .* 'eig'"
    ):
        step.lower(jax.ShapeDtypeStruct((8, 8), jnp.float32), target="tpu:v5e:2x4")


def test_an_operation_of_which_jax_asks_the_libraries_of_a_gpu() -> None:
    class Traced:
        def lower(self, lowering_platforms: Any) -> None:
            raise RuntimeError(
                "INTERNAL: operation gpusparseCreate(&handle) failed: none was found."
            )

    with pytest.raises(
        dtensor.CompileError,
        match=r"jax answers: operation .* none was found; it asks CUDA's libraries about this",
    ):
        lower_for(Target.parse("gpu:h100:8"), Traced(), [])


def test_complex128_at_the_border_of_a_tpu_program() -> None:
    module = MODULE.replace("xf32", "xcomplex<f64>")
    with jax.enable_x64(True):
        lowered = dtensor.lower_mlir(module, mesh=GRID, target="tpu:v5e:2x4")
    with pytest.raises(dtensor.CompileError, match=r"args\[0\] is of type complex128, which a TPU"):
        lowered.compile()


def test_a_function_may_have_an_argument_of_its_own_that_is_called_target() -> None:
    layout = dtensor.Layout(["x"], GRID)
    error = dtensor.jit(lambda guess, target: guess - target, in_layouts=layout)
    struct = jax.ShapeDtypeStruct((8,), jnp.float32)
    assert [a.name for a in error.lower(struct, target=struct).args] == ["guess", "target"]
    both = error.lower(struct, struct, target="tpu:v5e:2x4")
    assert [a.name for a in both.args] == ["guess", "target"]


def test_a_static_argument_that_is_called_target_is_not_guessed_at() -> None:
    found: dict[str, Any] = {"target": "tpu:v5e:2x4", "x": 1}
    with pytest.raises(dtensor.CompileError, match="rename the argument, or bind it with"):
        take_target(found, ["target"], jnp.add)
    assert take_target(found, [], jnp.add) == Target("tpu", "v5e", (2, 4))
    assert found == {"x": 1}
    assert take_target({}, ["target"], jnp.add) is None


def test_no_target_may_be_said_in_so_many_words() -> None:
    assert product().lower(*ARGS, target=None).compile().target is None
    with pytest.raises(dtensor.CompileError, match="target is of type int; a target is"):
        product().lower(*ARGS, target=7)
    found: dict[str, Any] = {"target": None}
    assert take_target(found, [], lambda x, target: x) is None
    assert found == {"target": None}


def test_what_xla_says_is_one_line_with_what_to_do() -> None:
    target = Target.parse("gpu:a100:8")
    error = RuntimeError("INTERNAL: libdevice not found at ./libdevice.10.bc\nStack:\n  f")
    assert first_line(error) == "libdevice not found at ./libdevice.10.bc"
    missing = explained(error, "step", target, 8)
    assert isinstance(missing, dtensor.NotFoundError)
    assert f'pip install "jax[cuda12-local]=={jax.__version__}" nvidia-cuda' in str(missing)
    other = explained(RuntimeError("UNIMPLEMENTED: no\nmore"), "step", target, 8)
    assert str(other) == "step: XLA cannot compile it for gpu:a100:8: no"
    assert first_line(RuntimeError()) == "RuntimeError"


@pytest.mark.parametrize("kind", GPU_KINDS)
def test_the_description_of_a_gpu_is_text_of_a_protocol_buffer(kind: str) -> None:
    text = target_config(GPU_KINDS[kind])
    assert text.count("{") == text.count("}")
    assert f'device_description_str: "{GPU_KINDS[kind].name}"' in text


def test_environment_variables_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTENSOR_TEST_GIVEN", "mine")
    monkeypatch.delenv("DTENSOR_TEST_NEW", raising=False)
    with defaults({"DTENSOR_TEST_GIVEN": "theirs", "DTENSOR_TEST_NEW": "1"}):
        assert os.environ["DTENSOR_TEST_GIVEN"] == "mine"
        assert os.environ["DTENSOR_TEST_NEW"] == "1"
    assert os.environ["DTENSOR_TEST_GIVEN"] == "mine"
    assert "DTENSOR_TEST_NEW" not in os.environ


def test_a_compiled_target_reports_and_refuses_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    # The devices here stand for the target's, so that no compiler of another machine is needed.
    monkeypatch.setattr(executable, "_DEVICES", {"tpu": lambda target: jax.devices()[:8]})
    executable._devices.cache_clear()
    executable.target_mesh.cache_clear()
    try:
        compiled = product().lower(*ARGS, target="tpu:v6e:2x4").compile()
    finally:
        executable._devices.cache_clear()
        executable.target_mesh.cache_clear()
    assert compiled.mesh == GRID
    assert str(compiled.target) == "tpu:v6e:2x4"
    assert compiled.program.args[0].layout.mesh == GRID
    assert "all-reduce" in compiled.as_text()
    assert compiled.target_report().startswith("tpu:v6e:2x4, mesh x=2 x y=4\n")
    arrays = (np.ones((16, 32), np.float32), np.ones((32, 24), np.float32))
    for call in (compiled, lambda *a: compiled.executable.run(*a)):
        with pytest.raises(
            dtensor.CompileError,
            match="<lambda> was compiled ahead of time for tpu:v6e:2x4, which is not this machine, "
            "and cannot be called; on a machine with these devices, compile it without target=",
        ):
            call(*arrays)
