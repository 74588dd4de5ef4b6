"""What every device computes alike, though it was split: a record, and an error under `strict`."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import dtensor
from dtensor.compiler.options import CompileOptions
from dtensor.dialect.layout import Layout
from dtensor.passes.graph import OP
from dtensor.passes.ledger import Record
from dtensor.passes.planning.not_parallel import lost_parallelism
from dtensor.passes.planning.options import Strategy
from dtensor.runtime.client import create_mesh
from tests.py.passes.run_passes import after, function

MESH = create_mesh([("x", 2), ("y", 4)])


def lowered(
    fn: Callable[..., Any],
    shape: tuple[int, ...],
    specs: Sequence[str | None],
    strict: bool = False,
) -> dtensor.Lowered:
    layout = Layout(list(specs), MESH)
    jitted = dtensor.jit(fn, in_layouts=(layout,), options=CompileOptions(strict=strict))
    return jitted.lower(jax.ShapeDtypeStruct(shape, jnp.float32))


def places(a: jax.Array) -> jax.Array:
    """What dividing it would take longer for: keys and places would be sent, four times."""
    return jnp.argsort(a, axis=1)


def records(program: dtensor.Lowered) -> list[Record]:
    return list(program._result.ledger.of_kind("not_parallel"))


def test_a_sort_of_a_split_dimension_is_computed_by_all() -> None:
    (record,) = records(lowered(places, (7, 1 << 16), [None, "y"]))
    assert record.text == (
        "stablehlo.sort is not divided over y: each of 4 devices computes the same 1.47e+07 flops; "
        "dividing it would take longer to communicate than it saves"
    )
    assert record.axes == ("y",)
    assert "test_not_parallel.py" in record.location
    assert not record.asked_for


@pytest.mark.parametrize(
    ("shape", "specs"),
    [
        ((7, 1 << 10), [None, "y"]),  # small
        ((8, 1 << 16), ["y", None]),  # each row is sorted by itself
        ((8, 1 << 16), [None, None]),  # nothing is split
        ((8, 1 << 16), [None, "y"]),  # is moved to the other dimension
    ],
)
def test_what_is_small_or_divided_is_no_record(
    shape: tuple[int, int], specs: list[str | None]
) -> None:
    assert records(lowered(places, shape, specs)) == []


def test_an_op_in_a_loop_says_how_often_it_runs() -> None:
    def loop(a: Any) -> Any:
        return jax.lax.fori_loop(0, 5, lambda _, b: jnp.sort(b * 2), a)

    found = records(lowered(loop, (1 << 18,), ["x"]))
    assert any("flops, 5 times; " in record.text for record in found)


def test_under_strict_it_is_divided_though_that_takes_longer() -> None:
    assert not records(lowered(places, (7, 1 << 16), [None, "y"], strict=True))


def test_under_strict_it_is_an_error_where_it_cannot_be_divided() -> None:
    program = lowered(jnp.linalg.eigvalsh, (512, 512), [None, "y"], strict=True)
    with pytest.raises(dtensor.StrictError, match=r"strict: a gives .* needs \[{}, {}\]"):
        program.as_text()


def test_it_comes_first_in_what_is_printed() -> None:
    compiled = lowered(places, (7, 1 << 16), [None, "y"]).compile()
    start = "not_parallel: stablehlo.sort is not divided over y"
    assert str(compiled).split("\n")[1].strip().startswith(start)
    assert compiled.explain().startswith(start)


def test_element_wise_work_that_is_repeated_by_choice_is_one_record_and_no_error() -> None:
    text = function(
        '(%a: tensor<2048x1024xf32> {dtensor.layout = #L[{"x"}, {}]#}) -> tensor<2048x1024xf32>',
        """
        %0 = stablehlo.tanh %a : tensor<2048x1024xf32>
        %1 = stablehlo.exponential %a : tensor<2048x1024xf32>
        %2 = stablehlo.add %0, %1 : tensor<2048x1024xf32>
        return %2 : tensor<2048x1024xf32>""",
    )
    with after("builtin.module(dtensor-import, dtensor-propagate)", text) as (_, state):
        assert state.graph is not None
        plan = state.ledger.trails[0].plan
        refusals: list[dict[int, str]] = [{} for _ in state.ledger.trails]
        assert lost_parallelism(state.graph, plan, refusals) == []
        whole = plan.specs.rank(2).replicated
        for node in state.graph.nodes:
            if node.kind == OP and len(node.operands) == 1:
                plan.strategies[node.index] = Strategy((whole,), (whole,), 1)
        (found,) = lost_parallelism(state.graph, plan, refusals)
    assert found.chosen
    assert found.text == (
        "2 element-wise operations are not divided over x, such as this stablehlo.tanh: each of 2 "
        "devices computes the same 4.19e+06 flops in all; dividing them would take longer to "
        "communicate than it saves"
    )


@pytest.mark.parametrize("axes", [[("x", 8)], [("x", 2), ("y", 4)]])
def test_a_large_matmul_that_nobody_laid_out_is_divided(axes: list[tuple[str, int]]) -> None:
    matrix = jax.ShapeDtypeStruct((4096, 4096), jnp.float32)
    program = dtensor.jit(jnp.matmul, mesh=create_mesh(axes)).lower(matrix, matrix)
    assert program._result.local_flops == 2 * 4096**3 / 8
    assert records(program) == []
