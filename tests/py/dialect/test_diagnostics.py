"""The user's line among the frames of a location, and how errors are written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from dtensor.dialect import attributes
from dtensor.dialect.context import make_context
from dtensor.dialect.diagnostics import (
    Diagnostic,
    LocatedError,
    Place,
    SourceText,
    did_you_mean,
    error,
    formatted,
    frames,
    place_of,
)
from dtensor.dialect.errors import CompileError
from dtensor.dialect.mlir import ir

USER = ("train.py", 41, 7)
LIBRARY = ("lib/site-packages/flax/linear.py", 271, 3)


@pytest.fixture(autouse=True)
def _in_context() -> Iterator[None]:
    with make_context():
        yield


def _stack(*innermost_first: tuple[str, int, int]) -> ir.Location:
    innermost, *callers = [ir.Location.file(*frame) for frame in innermost_first]
    return ir.Location.callsite(innermost, callers) if callers else innermost


def test_the_users_line_is_the_innermost_outside_libraries() -> None:
    location = _stack(LIBRARY, USER, ("main.py", 9, 1))
    assert place_of(location) == Place(*USER)
    assert list(frames(location)) == [Place(*LIBRARY), Place(*USER), Place("main.py", 9, 1)]


def test_our_own_files_and_the_standard_library_are_libraries() -> None:
    ours = (os.path.realpath(attributes.__file__), 3, 1)
    linked = (attributes.__file__, 3, 1)
    standard = (json.__file__, 5, 1)
    assert place_of(_stack(ours, linked, standard, USER)) == Place(*USER)


def test_where_all_is_library_the_outermost_frame_counts() -> None:
    outer = ("lib/site-packages/keras/fit.py", 5, 1)
    assert place_of(_stack(LIBRARY, outer)) == Place(*outer)


def test_names_and_ids_around_a_location_do_not_hide_it() -> None:
    number = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 12)
    inner = ir.Location.name("jit(step)/add", _stack(LIBRARY, USER))
    assert place_of(ir.Location.fused([inner], number)) == Place(*USER)


def test_what_has_no_place_has_none() -> None:
    assert place_of(ir.Location.unknown()) is None
    with pytest.raises(LocatedError, match=r"^sentence$"):
        error(ir.Location.unknown(), "sentence")


def test_errors_begin_with_their_place_and_are_compile_errors() -> None:
    with pytest.raises(CompileError, match=r"^train\.py:41:7: sentence$") as caught:
        error(_stack(USER), "sentence")
    assert isinstance(caught.value, LocatedError)
    assert (caught.value.place, caught.value.message) == (Place(*USER), "sentence")


def test_the_caret_stands_under_the_column_after_tabs_too() -> None:
    source = SourceText({"a.mlir": "first\n\tsecond x"})
    text = formatted(Diagnostic("error", Place("a.mlir", 2, 9), "sentence"), source)
    assert text == "a.mlir:2:9: error: sentence\n  \tsecond x\n  \t       ^"


def test_a_line_that_cannot_be_read_is_left_out() -> None:
    item = Diagnostic("warning", Place("no/such.file", 2, 9), "sentence")
    assert formatted(item, SourceText()) == "no/such.file:2:9: warning: sentence"
    assert formatted(Diagnostic("error", Place("a", 9, 1), "s"), SourceText({"a": "x"})) == (
        "a:9:1: error: s"
    )


def test_notes_follow() -> None:
    note = Diagnostic("note", None, "because")
    item = Diagnostic("error", None, "sentence", (note,))
    assert formatted(item, SourceText()) == "error: sentence\nnote: because"


def test_suggestions_compare_what_differs() -> None:
    known = ["dtensor.mesh", "dtensor.all_gather"]
    assert did_you_mean("dtensor.all_gahter", known) == "; did you mean 'dtensor.all_gather'?"
    assert did_you_mean("all_gather", known) == "; did you mean 'dtensor.all_gather'?"
    assert did_you_mean("dtensor.zzz", known) == "; known are dtensor.mesh, dtensor.all_gather"
    assert did_you_mean("x", []) == ""
