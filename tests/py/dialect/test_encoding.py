"""Modules whose text is not UTF-8: what jaxlib would end the process about is read all the same."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.diagnostics import LocatedError, place_of
from dtensor.dialect.encoding import decodable
from dtensor.dialect.mlir import bytecode_of, ir, ops_of
from dtensor.dialect.modules import read_module

PROGRAM = r"""
func.func @"f\FF"(%x: tensor<8xf32> loc("\FE.py":5:6)) -> tensor<8xf32> {
  %0 = stablehlo.custom_call @g(%x) {backend_config = "\08\FF\01", note = "\FD \C3\BC\22\\E9"}
      : (tensor<8xf32>) -> tensor<8xf32> loc("n\FF"("a\C3\BC\FFb.py":1:2))  // not "\FF
  return %0 : tensor<8xf32>
}
"""


@pytest.fixture(autouse=True)
def _in_context() -> Iterator[None]:
    with make_context():
        yield


@pytest.fixture(params=["text", "bytecode"])
def program(request: pytest.FixtureRequest) -> str | bytes:
    return PROGRAM if request.param == "text" else bytecode_of(read_module(PROGRAM))


def test_a_question_mark_stands_for_each_byte_that_is_no_text(program: str | bytes) -> None:
    module = parse_module(program)
    (function,) = ops_of(module.body)
    assert ir.StringAttr(function.attributes["sym_name"]).value == "f?"
    block = function.regions[0].blocks[0]
    assert str(place_of(block.arguments[0].location)) == "?.py:5:6"
    call = ops_of(block)[0]
    assert str(place_of(call)) == "aü?b.py:1:2"
    assert isinstance(call.location, ir.NameLoc)
    assert call.location.name_str == "n?"
    assert ir.StringAttr(call.attributes["note"]).value == '? ü"\\E9'


def test_configurations_of_custom_calls_keep_their_bytes(program: str | bytes) -> None:
    call = ops_of(ops_of(parse_module(program).body)[0].regions[0].blocks[0])[0]
    assert ir.StringAttr(call.attributes["backend_config"]).value_bytes == b"\x08\xff\x01"


def test_what_is_utf8_is_read_as_it_is() -> None:
    text = PROGRAM.replace(r"\FF", "").replace(r"\FE", r"\C3\BC").replace(r"\FD", "")
    assert decodable(text) == text
    bytecode = bytecode_of(read_module(text))
    assert decodable(bytecode) is bytecode
    with pytest.raises(LocatedError):
        parse_module(bytecode[:40])


@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        (r'func.func @main() { call @"f\FF"() : () -> () return }', "'f?' does not reference"),
        (r'func.func @f() { "stablehlo.a\FF"() : () -> () return }', "stablehlo.a?"),
        (r'func.func @f(%x: tensor<2xf32> {"\FF.a" = 1}) { return %y : i1 }', "undeclared SSA"),
    ],
)
def test_what_mlir_says_of_such_names_is_an_error(program: str, complaint: str) -> None:
    with pytest.raises(LocatedError, match=re.escape(complaint)):
        parse_module(program)
