"""Explanations: names, chains of reasons, and why something stayed whole."""

import functools
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.compiler.api import jit
from dtensor.compiler.options import CompileOptions
from dtensor.compiler.stages import Compiled
from dtensor.dialect.errors import CompileError
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.runtime.client import create_mesh

MESH = create_mesh([("x", 2), ("y", 4)])
X = np.ones((8, 64), np.float32)
PARAMS = {"w": np.ones((64, 64), np.float32), "b": np.ones((64,), np.float32)}
LAYOUTS = (
    {"w": Layout(["y", UNSHARDED], MESH), "b": Layout([UNSHARDED], MESH)},
    Layout(["x", UNSHARDED], MESH),
)


def layer(params: Any, x: Any) -> Any:
    h = jnp.tanh(x @ params["w"] + params["b"])
    return {"rows": h.sum(1), "order": jnp.abs(jnp.fft.rfft(h.ravel()))}


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    return jit(layer, in_layouts=LAYOUTS).lower(PARAMS, X).compile()


def test_an_argument_by_its_name(compiled: Compiled) -> None:
    assert compiled.explain("params['w']").split("\n") == [
        "argument params['w']: float32 64x64, [{\"y\"}, {}]",
        '  axis "y": given at argument 1',
    ]


def test_a_part_of_a_name_will_do(compiled: Compiled) -> None:
    assert compiled.explain("'w'") == compiled.explain("params['w']")
    with pytest.raises(
        CompileError, match=r"'params' is part of several names: .*; give one whole"
    ):
        compiled.explain("params")


def test_a_whole_name_counts_more_than_a_part() -> None:
    f = jit(lambda w, w2: w + w2, in_layouts=LAYOUTS[1])
    assert f.lower(X, X).compile().explain("w").startswith("argument w: ")


def test_unknown_names_are_refused_with_what_there_is(compiled: Compiled) -> None:
    with pytest.raises(CompileError, match="nothing is called 'colective 0'; did you mean 'coll"):
        compiled.explain("colective 0")
    with pytest.raises(CompileError, match=r"nothing is called 'zz'; names are params\['b'\], par"):
        compiled.explain("zz")


@pytest.mark.parametrize(
    ("function", "arguments", "what", "message"),
    [
        (lambda x: x, (X,), "collective 0", "there is no collective 0: .* the program has none"),
        (lambda: None, (), "x", "nothing is called 'x': the program takes and gives nothing"),
        (lambda x: x.sum(), (X,), "collective 1", "the program has 1, the last of them collective"),
    ],
)
def test_what_a_program_lacks_is_not_explained(
    function: Any, arguments: Any, what: str, message: str
) -> None:
    program = jit(function, in_layouts=LAYOUTS[1:] * len(arguments), mesh=MESH)
    with pytest.raises(CompileError, match=message):
        program.lower(*arguments).explain(what)


def test_a_function_of_jax_by_itself_stands_at_the_line_of_the_call() -> None:
    product = functools.partial(jnp.matmul, PARAMS["w"])
    plan = jit(product, in_layouts=LAYOUTS[0]["w"]).lower(PARAMS["w"])
    assert str(plan).startswith("matmul on mesh(x=2, y=4)\n")
    assert plan.collectives
    assert all(c.location.startswith("test_explain.py:") for c in plan.collectives)
    assert "jax_frontend" not in plan.explain()


def test_a_result_leads_back_to_what_was_given(compiled: Compiled) -> None:
    lines = compiled.explain("result['rows']").split("\n")
    assert lines[0] == "result result['rows']: float32 8, [{\"x\"}]"
    steps = [line.split(": ")[1] for line in lines[1:]]
    assert [step.split(" at ")[0] for step in steps[:-1]] == [
        "from reduce",
        "from tanh",
        "from add",
        "from dot_general",
        "from argument 2",
    ]
    assert steps[-1] == "given at argument 2"
    assert "test_explain.py:2" in steps[1]


def test_a_whole_result_says_why() -> None:
    rows = Layout(["x", UNSHARDED], MESH)
    whole = jit(lambda x: jnp.ravel(x)[:203], in_layouts=(rows,)).lower(X).compile()
    text = whole.explain("result")
    assert "float32 203, [{}]\n  whole on every device: " in text
    assert 'axis "x" stops at slice at test_explain.py:' in text


def test_a_result_of_uneven_size_was_given_by_nobody(compiled: Compiled) -> None:
    assert compiled.explain("result['order']").split("\n") == [
        "result result['order']: float32 257, [{\"x\"}]",
        '  axis "x": split as what it is made of, which is padded, at result 0',
    ]
    given = jit(layer, in_layouts=LAYOUTS, out_layouts={"rows": None, "order": Layout(["x"], MESH)})
    assert "given at result 0" in given.lower(PARAMS, X).compile().explain("result['order']")


def test_a_whole_argument_says_why(compiled: Compiled) -> None:
    text = compiled.explain("params['b']")
    assert text.startswith("argument params['b']: float32 64, [{}]\n  whole on every device: ")


def test_a_collective_has_its_line_its_reason_and_what_could_be_instead(compiled: Compiled) -> None:
    lines = compiled.explain("collective 0").split("\n")
    assert lines[0] == "collective 0: all_reduce over y of f32 4x64, 1536 bytes per device, once"
    assert lines[1].startswith("  at test_explain.py:")
    assert lines[2].startswith("  because dot_general over what y splits leaves parts of a sum")
    (instead,) = lines[3:]
    assert re.fullmatch(
        r'  instead dot_general could give it as \[\{"x"\}, \{\}\], for [\d.]+ [nu]s more', instead
    )


@pytest.mark.parametrize("effort", ["fast", "normal"])
@pytest.mark.parametrize("size", [6, 5])
def test_what_moves_for_the_padding_of_an_argument_has_a_line_too(size: int, effort: Any) -> None:
    def f(x: Any) -> Any:
        return x.reshape(-1), x @ x.T

    layout = Layout([UNSHARDED, "y"], MESH)
    program = jit(f, in_layouts=layout, options=CompileOptions(effort=effort))
    plan = program.lower(np.ones((8, size), np.float32))
    assert plan.collectives
    assert all("test_explain.py:" in collective.location for collective in plan.collectives)


def test_everything_is_explained_once(compiled: Compiled) -> None:
    text = compiled.explain()
    heads = [line for line in text.split("\n") if line and not line.startswith(" ")]
    assert re.fullmatch(r"[\d.]+ [nu]s planned, [\d.]+ [nu]s of them to communicate.*", heads[0])
    arrays = [h.split(":")[0] for h in heads if h.startswith(("argument", "result"))]
    assert arrays == [
        "argument params['b']",
        "argument params['w']",
        "argument x",
        "result result['order']",
        "result result['rows']",
    ]
    assert sum(h.startswith("collective") for h in heads) == len(compiled.collectives)


def test_what_falls_back_is_noted() -> None:
    def f(x: Any) -> Any:
        return jax.pure_callback(lambda y: np.asarray(y), jax.ShapeDtypeStruct(X.shape, X.dtype), x)

    compiled = jit(f, in_layouts=(LAYOUTS[1],)).lower(X).compile()
    (note,) = [n for n in compiled.explain().split("\n") if n.startswith("fallback: ")]
    assert note.startswith("fallback: stablehlo.custom_call @")
    assert "_callback has no rule: its operands are replicated" in note
    assert "test_explain.py:" in note


def test_loops_are_told_by_their_turns() -> None:
    def f(x: Any, w: Any) -> Any:
        return jax.lax.scan(lambda c, _: (jnp.tanh(c @ w) @ w.T, None), x, None, length=3)[0]

    layouts = (LAYOUTS[1], Layout([UNSHARDED, "y"], MESH))
    text = jit(f, in_layouts=layouts).lower(X, PARAMS["w"]).compile().explain("collective 0")
    assert text.split("\n")[0].endswith("bytes per device, 3 times")


def test_a_detour_says_what_it_goes_around() -> None:
    rows = Layout(["y", UNSHARDED], MESH)
    step = jit(lambda a: -jnp.sort(a, axis=0), in_layouts=rows)
    text = step.lower(jax.ShapeDtypeStruct((64, 48), jnp.float32)).compile().explain()
    assert re.search(
        r'result result: float32 64x48, \[\{\}, \{"y"\}\]\n  axis "y": from negate at .*\n'
        r'  axis "y": from sort at .*, moved: dimension 0 of operand 0 cannot be split into 4 '
        r"there\n",
        text,
    ), text
    assert re.search(
        r"collective 0: all_to_all over y .*\n.*\n"
        r'  because a gives \[\{"y"\}, \{\}\], sort needs \[\{\}, \{"y"\}\]$',
        text,
    ), text
