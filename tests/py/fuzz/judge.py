"""One program on its mesh against one device, and the smallest program that still fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

import dtensor
from tests.py.fuzz.programs import Argument, Program, needed

RIGHT, SKIPPED, DRIFT, WRONG, CRASH = "right", "skipped", "drift", "wrong", "crash"


@dataclass(frozen=True)
class Verdict:
    """What came of a program: one of the words above, and in what way."""

    kind: str
    text: str = ""
    fallbacks: tuple[str, ...] = ()

    @property
    def is_defect(self) -> bool:
        """Whether dtensor is at fault."""
        return self.kind in (WRONG, CRASH)


def judge(program: Program, look: bool = False) -> Verdict:
    """Run a program on its mesh and on one device.

    Args:
        program: the program.
        look: whether to look at each operation also where the results are close.
    """
    values = program.values
    try:
        expected = jax.jit(program.function)(*values)
        expected = [np.asarray(value) for value in expected]
    except Exception as refused:  # jax itself cannot
        return Verdict(SKIPPED, str(refused)[:200])
    mesh = dtensor.create_mesh(program.mesh)
    how: Any = {"in_layouts": program.layouts(mesh), "mesh": mesh, "options": program.options}
    try:
        compiled = dtensor.jit(program.function, **how).lower(*values)
        found = [np.asarray(r.to_jax()) for r in compiled.compile()(*values)]
        if not look and all(_close(f, e) for f, e in zip(found, expected, strict=True)):
            return Verdict(RIGHT, "", _fallbacks(compiled))
        report = dtensor.verify(program.function, *values, **how)
    except Exception as failure:
        return Verdict(CRASH, f"{type(failure).__name__}: {failure}")
    if not report.ok:
        return Verdict(WRONG, str(report))
    close = all(_close(f, e) for f, e in zip(found, expected, strict=True))
    return Verdict(RIGHT if close else DRIFT, f"{report}", _fallbacks(compiled))


def _fallbacks(lowered: dtensor.Lowered) -> tuple[str, ...]:
    records = lowered.ledger.get("records", [])
    return tuple(r["text"] for r in records if r.get("kind") == "fallback")


def _close(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
    """Whether it is not worth while to look closer."""
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        return False
    if found.dtype.kind in "biu":
        return bool(np.array_equal(found, expected))
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    a, b = found.astype(wide), expected.astype(wide)
    finite = np.isfinite(b)
    scale = float(np.max(np.abs(b[finite]), initial=1e-3))
    loose = 2e-4 if found.dtype.name in ("float32", "complex64") else 0.05
    with np.errstate(all="ignore"):
        same = (a == b) | (np.abs(a - b) <= loose * scale) | (np.isnan(a) & np.isnan(b))
    return bool(np.all(same))


def smallest(program: Program, kind: str, look: bool = False) -> Program:
    """A smaller program with a verdict of the same kind: fewer lines, layouts and results."""
    changed = True
    while changed:
        changed = False
        for candidate in _smaller(program):
            if judge(candidate, look).kind == kind:
                program, changed = candidate, True
                break
    return program


def _smaller(program: Program) -> Iterator[Program]:
    if program.nest:
        yield replace(program, nest="")
    if len(program.results) > 1:
        for name in program.results:
            yield needed(replace(program, results=(name,)))
    known = _shapes(program)
    for line in program.lines[:-1]:  # a line's value as an argument
        if line.name in known:
            shape, dtype = known[line.name]
            lines = tuple(other for other in program.lines if other != line)
            argument = Argument(line.name, shape, dtype, None)
            yield needed(replace(program, lines=lines, arguments=(*program.arguments, argument)))
    for number, argument in enumerate(program.arguments):
        if argument.specs is not None and any(argument.specs):
            plain = replace(argument, specs=tuple(() for _ in argument.specs))
            arguments = list(program.arguments)
            arguments[number] = plain
            yield replace(program, arguments=tuple(arguments))


def _shapes(program: Program) -> dict[str, tuple[tuple[int, ...], str]]:
    every = replace(program, results=tuple(line.name for line in program.lines))
    made = jax.eval_shape(every.function, *program.values)
    names = (line.name for line in program.lines)
    return {n: (tuple(v.shape), v.dtype.name) for n, v in zip(names, made, strict=True)}
