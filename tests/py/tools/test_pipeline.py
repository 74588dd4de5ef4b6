"""Pipelines: text to steps, mixing, hooks, options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest

from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.diagnostics import LocatedError
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.passes import pipelines
from dtensor.passes.base import Option, Pass, PassOptionError, PassState, options_of
from dtensor.passes.cxx import CXX_PASSES
from dtensor.passes.pipeline import Instruments, Pipeline
from dtensor.passes.pipeline_text import Entry, parse_pipeline
from dtensor.passes.registry import PASSES

PROGRAM = """
"dtensor.mesh"() {sym_name = "grid", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.tanh %arg0 : tensor<2xf32>
  %1 = stablehlo.tanh %arg0 : tensor<2xf32>
  %2 = stablehlo.add %0, %1 : tensor<2xf32>
  return %2 : tensor<2xf32>
}
"""


@dataclass(frozen=True)
class SamplePass(Pass):
    """Has an option of each type."""

    name: ClassVar[str] = "dtensor-sample"
    max_sweeps: int = 8  # sweeps at most
    min_gain: float = 0.5
    is_loud: bool = False  # say more
    label: str = "x"  # what to call it

    def run(self, module: ir.Module, state: PassState) -> None:
        module.operation.attributes["dtensor.local"] = ir.UnitAttr.get()


@pytest.fixture(autouse=True)
def _in_context() -> Iterator[None]:
    with make_context(), ir.Location.unknown():
        yield


def test_entries_nest_and_carry_options_and_positions() -> None:
    text = 'a{n=1 b c-d="two words"} , func.func( cse,inline )'
    first, second = parse_pipeline(text)
    assert first.options == {"n": "1", "b": "true", "c-d": "two words"}
    assert second.inner == (Entry("cse", 38), Entry("inline", 42))
    assert text[second.position :].startswith("func.func")
    assert parse_pipeline("  ") == ()


def test_options_come_from_the_fields_in_either_spelling() -> None:
    made = SamplePass.from_options({"max-sweeps": "3", "is_loud": "true", "min-gain": "1e-3"})
    assert made == SamplePass(max_sweeps=3, is_loud=True, min_gain=0.001)
    assert options_of(SamplePass) == [
        Option("max-sweeps", "int", "8", "sweeps at most"),
        Option("min-gain", "float", "0.5", ""),
        Option("is-loud", "bool", "false", "say more"),
        Option("label", "str", "x", "what to call it"),
    ]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"max-sweep": "1"}, "has no option 'max-sweep'; did you mean 'max-sweeps'?"),
        ({"max-sweeps": "many"}, "option 'max-sweeps' of pass 'dtensor-sample' is 'many'; give an"),
        ({"is-loud": "very"}, "is 'very'; give true or false"),
        ({"min-gain": "x"}, "is 'x'; give a number"),
        ({"min-gain": "nan"}, "is 'nan'; give a number"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(PassOptionError, match=re.escape(sentence)):
        SamplePass.from_options(options)


def test_the_hook_sees_the_module_after_each_pass() -> None:
    module = parse_module(PROGRAM)
    seen = {}

    def after(name: str, current: ir.Module) -> None:
        seen[name] = str(current).count("stablehlo.tanh")

    instruments = Instruments(after=after)
    pipeline = Pipeline.parse("builtin.module(dtensor-verify, func.func(cse), symbol-dce)")
    pipeline.run(module, PassState(), instruments)
    assert seen == {"dtensor-verify": 2, "cse": 1, "symbol-dce": 1}
    assert [name for name, _ in instruments.seconds] == list(seen)


def test_cxx_passes_drop_the_cached_graph_and_ours_do_not() -> None:
    state = PassState()
    state.graph = object()  # type: ignore[assignment]
    Pipeline.parse("dtensor-verify").run(parse_module(PROGRAM), state)
    assert state.graph is not None
    Pipeline.parse("cse").run(parse_module(PROGRAM), state)
    assert state.graph is None


def test_the_state_knows_the_mesh_of_the_module_unless_it_was_given_one() -> None:
    state = PassState()
    Pipeline(()).run(parse_module(PROGRAM), state)
    assert state.mesh == Mesh({"x": 2}, name="grid")
    given = Mesh({"x": 4})
    state = PassState(mesh=given)
    Pipeline(()).run(parse_module(PROGRAM), state)
    assert state.mesh is given


def test_a_failing_cxx_pass_is_an_error_with_its_place() -> None:
    text = PROGRAM.replace("-> tensor<2xf32> {", "-> (tensor<2xf32>) {")
    pipeline = Pipeline.parse("stablehlo-refine-arguments{types=tensor<9xi1>}")
    with pytest.raises(LocatedError) as caught:
        pipeline.run(parse_module(text, "a.mlir"), PassState())
    assert caught.value.__notes__ == ["while running pass stablehlo-refine-arguments"]


def test_named_pipelines_only_name_passes_that_exist() -> None:
    for name, stages in pipelines.PIPELINES.items():
        assert name in pipelines.SUMMARIES
        entries = [entry for stage in stages for entry in parse_pipeline(stage.text)]
        for entry in (e for outer in entries for e in outer.inner or (outer,)):
            assert entry.name in PASSES or entry.name in CXX_PASSES
        assert all(stage.reason for stage in stages)


def test_named_pipelines_stand_in_other_pipelines() -> None:
    names = Pipeline.parse("builtin.module(dtensor-prepare, dtensor-verify)").names
    assert names[0] == "dtensor-keep-annotations"
    assert names[-1] == "dtensor-verify"


@pytest.mark.parametrize("name", list(pipelines.PIPELINES))
def test_what_a_pipeline_is_written_as_is_read_as_the_same(name: str) -> None:
    pipeline = Pipeline.parse(f"{name}, dtensor-lower{{keep-layouts=true}}")
    assert Pipeline.parse(pipeline.text) == pipeline
