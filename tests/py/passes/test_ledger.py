"""The ledger: records, their form as JSON, and that every collective leads to one."""

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

from dtensor.compiler.driver import DriverResult, compile_module
from dtensor.compiler.options import CompileOptions
from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.passes.functions import main_function
from dtensor.passes.ledger import FIRST_RECORD, Ledger, Record
from dtensor.passes.locations import all_ids, tag
from dtensor.passes.ops.table import OPS
from tests.py.passes.run_passes import counted_loop, function

MESH = Mesh([("x", 2), ("y", 4)])
KINDS = {"plan", "not_parallel", "relayout", "fallback", "refusal", "moved argument"}
KINDS |= {"warning"}
TYPES: dict[str, type | tuple[type, ...]] = {
    "id": int,
    "kind": str,
    "text": str,
    "ops": list,
    "axes": list,
    "parents": list,
    "before": str,
    "after": str,
    "bytes": float,
    "seconds": float,
    "communication": float,
    "bound": float,
    "runner_up": str,
    "location": str,
    "asked_for": bool,
}
COLLECTIVES = {
    f"stablehlo.{name}"
    for name in ("all_gather", "all_reduce", "reduce_scatter", "all_to_all", "collective_permute")
}

# A program with every kind of collective: sums, gathers, moves, inside a loop and outside.
PROGRAM = function(
    """(%a: tensor<8x32xf32> {dtensor.layout = #L[{"x"}, {"y"}]#},
        %w: tensor<32x16xf32> {dtensor.layout = #L[{"y"}, {}]#},
        %v: tensor<16x32xf32> {dtensor.layout = #L[{"x"}, {"y"}]#})
        -> (tensor<8x32xf32> {dtensor.layout = #L[{}, {"x"}]#}, tensor<f32>,
            tensor<16x32xf32> {dtensor.layout = #L[{"y"}, {"x"}]#})""",
    """
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %end = stablehlo.constant dense<3> : tensor<i32>
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %r:2 = stablehlo.while(%i = %zero, %c = %a) : tensor<i32>, tensor<8x32xf32>
      cond {
        %p = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      } do {
        %0 = stablehlo.dot_general %c, %w, contracting_dims = [1] x [0]
            : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
        %1 = stablehlo.tanh %0 : tensor<8x16xf32>
        %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0]
            : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
        %n = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %n, %2 : tensor<i32>, tensor<8x32xf32>
      }
    %s = stablehlo.reduce(%r#1 init: %z) applies stablehlo.add across dimensions = [0, 1]
        : (tensor<8x32xf32>, tensor<f32>) -> tensor<f32>
    return %r#1, %s, %v : tensor<8x32xf32>, tensor<f32>, tensor<16x32xf32>""",
)


def compiled(text: str, **options: Any) -> DriverResult:
    with make_context():
        module = parse_module(text)
        main = main_function(module)
        type_ = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        counts = len(type_.inputs), len(type_.results)
    arguments, results = ([None] * n for n in counts)
    return compile_module(text, "p.mlir", MESH, arguments, results, CompileOptions(**options))


@pytest.fixture(scope="module")
def result() -> DriverResult:
    return compiled(PROGRAM)


def operations(block: ir.Block) -> Iterator[ir.Operation]:
    for view in block.operations:
        yield view.operation
        for region in view.operation.regions:
            for inner in region.blocks:
                yield from operations(inner)


# Records.


def test_records_number_from_a_place_no_operation_reaches() -> None:
    ledger = Ledger()
    first, second = ledger.add("plan", "one"), ledger.add("relayout", "two")
    assert (first.id, second.id) == (FIRST_RECORD, FIRST_RECORD + 1)
    assert ledger.record(second.id) is second
    assert ledger.record(0) is None
    assert ledger.record(FIRST_RECORD - 1) is None
    assert ledger.record(FIRST_RECORD + 2) is None


def test_a_record_knows_its_operation_and_its_line() -> None:
    with make_context():
        location = tag(ir.Location.file("train.py", 3, 7), 41)
        record = Ledger().add("relayout", "why", location)
    assert record.ops == (41,)
    assert record.location == "train.py:3:7" or record.location.endswith("train.py:3:7")


def test_a_warning_is_given_once_per_place() -> None:
    ledger = Ledger()
    with make_context():
        here, there = ir.Location.file("a.py", 1, 1), ir.Location.file("a.py", 2, 1)
        first = ledger.warn(here, "slow")
        assert ledger.warn(here, "slow") is first
        ledger.warn(here, "wide")
        ledger.warn(there, "slow")
    assert [r.text for r in ledger.of_kind("warning")] == ["slow", "wide", "slow"]


def test_what_nobody_asked_for_is_marked() -> None:
    ledger = Ledger()
    ledger.add("plan", "p")
    fallback = ledger.add("fallback", "f", asked_for=False)
    assert ledger.unasked() == [fallback]


def test_records_cannot_be_changed() -> None:
    record = Ledger().add("plan", "one")
    with pytest.raises(AttributeError):
        record.text = "another"  # type: ignore[misc]


# As JSON.


def test_json_and_back(result: DriverResult) -> None:
    data = result.ledger.to_json()
    assert json.loads(json.dumps(data)) == data
    names = [f.name for f in fields(Record)]
    again = []
    for entry in data["records"]:
        assert list(entry) == names
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()
        }
        again.append(Record(**values))
    assert again == result.ledger.records


def test_the_schema_is_kept(result: DriverResult) -> None:
    data = result.ledger.to_json()
    assert list(data) == ["version", "ops", "records", "rewrites"]
    assert data["version"] == 1
    for i, op in enumerate(data["ops"]):
        assert {k: type(v) for k, v in op.items()} == {"id": int, "name": str, "location": str}
        assert op["id"] == i
    for i, record in enumerate(data["records"]):
        assert record["id"] == FIRST_RECORD + i
        assert record["kind"] in KINDS
        assert set(record) == set(TYPES)
        for key, type_ in TYPES.items():
            assert isinstance(record[key], type_), key
        assert all(isinstance(n, int) and n < len(data["ops"]) for n in record["ops"])
        assert all(FIRST_RECORD <= p < record["id"] for p in record["parents"])


# What it explains.


def test_every_collective_of_the_lowered_module_leads_to_a_reason(result: DriverResult) -> None:
    ledger = result.ledger
    found = []
    with make_context():
        module = parse_module(result.bytecode)
        for op in operations(main_function(module).regions[0].blocks[0]):
            if op.name not in COLLECTIVES:
                continue
            records = [r for r in map(ledger.record, all_ids(op.location)) if r is not None]
            assert records, f"{op.name} at {op.location} leads to no record"
            found.append(op.name)
            for record in records:
                check_reason(ledger, record)
    assert set(found) >= {"stablehlo.all_reduce", "stablehlo.all_gather"}
    assert len(found) == len(result.collectives)


def check_reason(ledger: Ledger, record: Record) -> None:
    """A record leads to an annotation or a rule."""
    assert record.kind == "relayout"
    assert record.before != record.after
    assert record.location.startswith("p.mlir:")
    annotated = any(word in record.text for word in ("argument ", "result ", "the constraint"))
    if record.text.startswith("argument ") and ", result " in record.text:
        assert record.ops == ()  # straight through: there is no operation to name
    else:
        (op,) = record.ops
        assert annotated or ledger.op_names[op] in {*OPS, "stablehlo.while"}


def test_planned_collectives_carry_the_same_records(result: DriverResult) -> None:
    for collective in result.collectives:
        records = [result.ledger.record(i) for i in collective.records]
        assert records
        assert records[0] is not None
        assert collective.reason.startswith(records[0].text)
        assert collective.location == records[0].location


def test_bytes_of_records_add_up_to_those_of_the_collectives(result: DriverResult) -> None:
    recorded = sum(r.bytes for r in result.ledger.of_kind("relayout"))
    planned = sum(c.bytes * (c.trip_count or 1) for c in result.collectives)
    assert recorded == pytest.approx(planned)
    assert planned > 0


def test_moves_that_a_constraint_asks_for_say_so() -> None:
    text = function(
        """(%a: tensor<8x4xf32> {dtensor.layout = #L[{"x"}, {}]#}) -> tensor<8x4xf32>""",
        counted_loop(
            body="""
        %g = "dtensor.relayout"(%c) {layout = #L[{}, {"x"}]#}
            : (tensor<8x4xf32>) -> tensor<8x4xf32>
        %t = stablehlo.tanh %g : tensor<8x4xf32>
        %y = "dtensor.relayout"(%t) {layout = #L[{"x"}, {}]#}
            : (tensor<8x4xf32>) -> tensor<8x4xf32>"""
        ),
    )
    mesh = f'"dtensor.mesh"() {{sym_name = "mesh", mesh = {MESH.asm()}}} : () -> ()\n'
    result = compiled(mesh + text)
    assert [c.trip_count for c in result.collectives] == [5, 5]
    assert all("the constraint must have" in c.reason for c in result.collectives)
    assert result.ledger.unasked() == []
