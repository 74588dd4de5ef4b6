"""Random programs run, are the same for a seed, and are made small where they fail."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from dtensor.passes.ops import table
from tests.py.fuzz.judge import CRASH, RIGHT, WRONG, judge, smallest
from tests.py.fuzz.programs import NESTS, TEMPLATES, Argument, Line, Program, needed, program

MESH = (("x", 2), ("y", 4))


@pytest.mark.sweep
@pytest.mark.parametrize("seed", [3, 14, 15, 92, 65])
def test_a_seed_makes_a_program_that_one_device_agrees_with(seed: int) -> None:
    made = program(seed)
    assert made == program(seed)
    assert not judge(made).is_defect, made.script()


def test_lines_have_places_that_are_drawn() -> None:
    for section, lines in TEMPLATES.items():
        assert re.fullmatch(r"[fhiubc]+\d", section)
        assert len(set(lines)) == len(lines)
        for line in lines:
            assert "{x}" in line
            assert not re.sub(r"\{[xydenk]\}", "", line).count("{")


def flips() -> Program:
    rows = Argument("a0", (8, 3), "float32", (("y",), ()))
    other = Argument("a1", (8, 3), "float32", (("x",), ()))
    texts = ["jnp.tanh(a0)", "v0 + a1", "jnp.flip(v1, 0)", "v2 * 2", "v3 - v0"]
    lines = tuple(Line(f"v{n}", text) for n, text in enumerate(texts))
    return Program(5, MESH, (rows, other), lines, ("v0", "v4"))


def test_what_is_wrong_is_made_small_and_printed_as_a_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert judge(flips()).kind == RIGHT
    monkeypatch.setitem(table.DEFINITIONS, "stablehlo.reverse", table.opdef("stablehlo.negate"))
    verdict = judge(flips())
    assert verdict.kind == WRONG
    assert "reverse" in verdict.text
    small = smallest(flips(), WRONG)
    assert "jnp.flip" in small.source
    assert len(small.lines) < 5
    assert small.results == ("v4",)
    compile(small.script(), "script", "exec")


def test_what_cannot_be_compiled_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(op: object) -> None:
        raise IndexError("no such dimension")

    rule = table.opdef("stablehlo.reverse")
    monkeypatch.setitem(table.DEFINITIONS, "stablehlo.reverse", type(rule)(fails))
    verdict = judge(flips())
    assert (verdict.kind, verdict.is_defect) == (CRASH, True)
    assert verdict.text.startswith("IndexError: no such dimension")


@pytest.mark.sweep
@pytest.mark.parametrize("nest", NESTS)
def test_some_lines_stand_in_a_loop_or_the_like(nest: str) -> None:
    made = replace(flips(), nest=nest, nested=("v1", "v2", "v3"))
    assert made.source.count("\n        v") == 3
    verdict = judge(made)
    assert verdict.kind == RIGHT, verdict.text
    fewer = needed(replace(made, results=("v1",)))
    assert "return (v1, )" in fewer.source


def test_a_program_keeps_what_its_results_need() -> None:
    made = needed(Program(0, MESH, flips().arguments, flips().lines, ("v0",)))
    assert [line.name for line in made.lines] == ["v0"]
    assert [argument.name for argument in made.arguments] == ["a0"]
