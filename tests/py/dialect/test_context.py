"""Reading modules: text, bytecode, properties, errors with their places."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.diagnostics import LocatedError, Place, place_of
from dtensor.dialect.functions import entry_function
from dtensor.dialect.mlir import bytecode_of, ir

GATHER = (
    "func.func @main(%arg0: tensor<2xf32>) {\n"
    '  %0 = "dtensor.all_gather"(%arg0) ATTRIBUTES : (tensor<2xf32>) -> tensor<4xf32>\n'
    "  return\n"
    "}\n"
)
ATTRIBUTES = '{axes = #dtensor.axes<@mesh, ["x"]>, dim = 0 : i64}'


@pytest.fixture(autouse=True)
def _in_context() -> Iterator[None]:
    with make_context(), ir.Location.unknown():
        yield


def test_text_bytes_and_bytecode_are_one_module() -> None:
    text = GATHER.replace("ATTRIBUTES", ATTRIBUTES)
    module = parse_module(text)
    assert str(parse_module(text.encode())) == str(module)
    assert str(parse_module(bytecode_of(module))) == str(module)


def test_properties_become_attributes_in_text_and_in_bytecode() -> None:
    wanted = str(parse_module(GATHER.replace("ATTRIBUTES", ATTRIBUTES)))
    text = GATHER.replace("ATTRIBUTES", f"<{ATTRIBUTES}>")
    assert str(parse_module(text)) == wanted
    raw = bytecode_of(ir.Module.parse(text))
    assert "<{" in str(ir.Module.parse(raw)), "the bytecode holds properties"
    assert str(parse_module(raw)) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func.func @f(", "step.mlir:7:13: expected non-function type"),
        ("func.func @f() { return }\n\n  foo.bar", "step.mlir:9:3: "),
        ('func.func @f() {\n  "stablehlo.adx"() : () -> ()\n}', "step.mlir:8:3: unregistered"),
    ],
)
def test_errors_carry_file_line_and_column(text: str, message: str) -> None:
    with pytest.raises(LocatedError) as caught:
        parse_module(text, "step.mlir", first_line=7)
    assert str(caught.value).startswith(message)
    assert caught.value.place is not None
    assert caught.value.place.file == "step.mlir"


@pytest.mark.parametrize("source", [b"\xff\xfe", b"ML\xefR\x00\x01"])
def test_bytes_that_are_no_module_are_refused(source: bytes) -> None:
    with pytest.raises(LocatedError, match=r"step\.mlir"):
        parse_module(source, "step.mlir")


def test_places_of_operations_name_the_file() -> None:
    module = parse_module(GATHER.replace("ATTRIBUTES", ATTRIBUTES), "step.mlir")
    function = entry_function(module)
    assert function is not None
    gather = function.regions[0].blocks[0].operations[0]
    assert place_of(gather) == Place("step.mlir", 2, 8)


def test_the_entry_is_main_or_the_only_public_function() -> None:
    def entry(*functions: str) -> str | None:
        module = parse_module("\n".join(f"func.func {f}() {{ return }}" for f in functions))
        found = entry_function(module)
        return None if found is None else str(found.attributes["sym_name"])

    assert entry("@step", "@main") == '"main"'
    assert entry("private @other", "@step") == '"step"'
    assert entry("@one", "@two") is None
    assert entry() is None


def test_dialects_that_a_context_has_not_loaded_are_read_all_the_same() -> None:
    text = (
        "func.func @main(%arg0: vector<4xf32>) -> vector<4xf32> {\n"
        "  %0 = math.exp %arg0 : vector<4xf32>\n"
        "  return %0 : vector<4xf32>\n"
        "}\n"
    )
    module = parse_module(text)
    assert "math.exp %arg0 : vector<4xf32>" in str(module)
    assert str(parse_module(bytecode_of(module))) == str(module)
    alone = '"math.exp"() : () -> vector<4xf32>'
    with pytest.raises(LocatedError, match=r"'math\.exp' op requires a single operand"):
        parse_module(text.replace("math.exp %arg0 : vector<4xf32>", alone))
