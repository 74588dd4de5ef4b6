"""What one rewrite erases no other one looks at: `passes/rewriting/rewriting.py`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dtensor.passes.cuts
import dtensor.passes.forms
import dtensor.passes.rewriting
from dtensor.dialect.mlir import ir, maker_of, users
from dtensor.passes.base import PassState
from dtensor.passes.functions import main_function
from dtensor.passes.program import Operations
from dtensor.passes.rewriting.rewriting import Rewriting
from dtensor.passes.rewriting.shards import Shards
from tests.py import fresh
from tests.py.passes.run_passes import parsed

PAIRS = """func.func @main(%a: tensor<6x4xf32>) -> tensor<6x4xf32> {
  %0 = stablehlo.negate %a : tensor<6x4xf32>
  %1 = stablehlo.negate %0 : tensor<6x4xf32>
  %2 = stablehlo.negate %1 : tensor<6x4xf32>
  %3 = stablehlo.negate %2 : tensor<6x4xf32>
  return %3 : tensor<6x4xf32>
}"""


@contextmanager
def rewriting(text: str) -> Iterator[tuple[Rewriting, ir.Operation, list[str]]]:
    """What forms and cuts rewrite, the function, and the names of what is noted."""
    noted: list[str] = []
    with parsed(text) as module:
        main = main_function(module)
        shards = Shards(main, PassState())
        yield (
            Rewriting(main, Operations(main), shards, lambda op: noted.append(op.name)),
            main,
            noted,
        )


def names(main: ir.Operation) -> list[str]:
    return [view.operation.name for view in main.regions[0].blocks[0].operations]


def drop_pairs() -> list[str]:
    """Drop pairs of negates, the last first; gives what is left."""
    with rewriting(PAIRS) as (function, main, _):
        for op in function.each("stablehlo.negate", is_reverse=True):
            before = maker_of(op.operands[0])
            if before is not None:
                function.replace(op, before.operands[0])
        return names(main)


def test_a_match_that_another_rewrite_erased_has_no_turn() -> None:
    """Each of three negates ends a pair; the pair in the middle shares one with both others.

    In a process of its own, which would end where an operation is read that is not there.
    """
    program = f"from {__name__} import drop_pairs; print(drop_pairs())"
    found = fresh.run(["-c", program], env=os.environ)
    assert (found.returncode, found.stdout) == (0, "['func.return']\n"), found.stderr


def test_a_match_that_reads_something_else_by_now_has_no_turn_once_it_is_erased() -> None:
    """Turn one changes what the second negate reads, and erases it with its reader."""
    with rewriting(PAIRS) as (function, main, _):
        turns = 0
        for op in function.each("stablehlo.negate"):
            turns += 1
            if turns == 1:
                ((second,),) = [users(result) for result in op.results]
                ((third,),) = [users(result) for result in second.results]
                function.replace(op, op.operands[0])
                function.replace(third, second.operands[0])
        assert turns == 2
        assert names(main) == ["stablehlo.negate", "func.return"]


def test_what_was_created_and_is_read_is_noted_once() -> None:
    with rewriting(PAIRS) as (function, main, noted):
        for op in function.each("stablehlo.negate"):
            made = op.clone(ip=ir.InsertionPoint(op)).operation
            unread = op.clone(ip=ir.InsertionPoint(op)).operation
            function.made += [made, unread]
            function.replace(op, made.results[0])
        assert noted == ["stablehlo.negate"] * 4
        assert names(main) == [*noted, "func.return"]


def test_an_erased_value_says_nothing_of_one_that_takes_its_place_in_memory() -> None:
    with rewriting(PAIRS) as (function, _, _):
        function.shards.count()  # reads the function
        graph = function.shards.graph
        assert graph is not None
        known = len(graph.number)
        for op in function.each("stablehlo.negate"):
            function.replace(op, op.operands[0])
        assert len(graph.number) == known - 4


PACKAGES = (dtensor.passes.cuts, dtensor.passes.forms, dtensor.passes.rewriting)


def test_forms_and_cuts_erase_in_one_place() -> None:
    files = [Path(p) for m in PACKAGES for p in m.__path__]
    found = {
        path.name for folder in files for path in folder.glob("*.py") if _erases(path.read_text())
    }
    assert found == {"rewriting.py", "alike.py"}  # which erases a copy that nobody else knows


def _erases(text: str) -> bool:
    return re.search(r"\.erase\(|\breplace_op\(|\bdissolve\(", text) is not None
