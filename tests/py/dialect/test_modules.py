"""The owner of modules: handles keep them, and nothing else does."""

from pathlib import Path

from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.mlir import ir
from dtensor.dialect.modules import release_modules
from tests.py.overwritten import assert_survives

TEXT = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }"


def test_a_handle_of_any_kind_keeps_its_module() -> None:
    assert_survives(Path(__file__).with_name("handles.py"))


def _contexts() -> int:
    release_modules()
    return int(ir.Context._get_live_count())


def test_modules_go_with_the_last_handle() -> None:
    before = _contexts()
    with make_context():
        first = parse_module(TEXT)
        parse_module(TEXT)
        attribute = first.body.operations[0].attributes["sym_name"]
    assert _contexts() == before + 1, "a module is held by its name"
    del first
    assert _contexts() == before + 1, "an attribute is held"
    del attribute
    assert _contexts() == before


def test_reading_lets_go_of_what_was_read_before() -> None:
    before = _contexts()
    for _ in range(20):
        with make_context():
            parse_module(TEXT)
    assert ir.Context._get_live_count() <= before + 2
    assert _contexts() == before
