"""Random programs as text: a seed makes a function, its arguments, their layouts and a mesh."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dtensor

MESHES: tuple[tuple[tuple[str, int], ...], ...] = (
    (("x", 2), ("y", 4)),
    (("x", 8),),
    (("x", 2), ("y", 2), ("z", 2)),
    (("x", 3), ("y", 2)),
    (("x", 5),),
)
SIXTEEN = (("x", 2), ("y", 2), ("z", 2), ("w", 2))  # of more devices than the other tests have
SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 10, 11, 12, 13, 15, 16, 16, 24)
MAX_ELEMENTS = 3000
# Small programs under the default hardly use what is distributed: most of it starts too much.
COSTS = {
    "default": "dtensor.CompileOptions()",
    "bytes alone": "dtensor.CompileOptions(cost=dtensor.CostModel(link=dtensor.Link(0.0, 1e6)))",
    "work alone": "dtensor.CompileOptions(cost=dtensor.CostModel(link=dtensor.Link(0.0, 1e11), "
    "peak_flops=1e9, hbm_bytes_per_second=1e9))",
}
KINDS = {
    "float32": "f",
    "bfloat16": "h",
    "float16": "h",
    "int32": "i",
    "int8": "i",
    "uint32": "u",
    "uint8": "u",
    "bool": "b",
    "complex64": "c",
}
Specs = tuple[tuple[str, ...], ...]
# What some lines of a program, as a function `part` of what they read, may stand in.
NESTS = (
    "jax.jit(part)(*given)",
    "jax.lax.optimization_barrier(part(*given))",
    "jax.lax.cond(jnp.sum(given[0]).real > 0, part, lambda *t: part(*t), *given)",
    "jax.lax.switch(jnp.sum(given[0] != 0) % 3, [part, jax.checkpoint(part), part], *given)",
    "jax.lax.fori_loop(0, jnp.sum(given[0] != 0) % 3, lambda i, c: part(*given), part(*given))",
    "[t[1] for t in jax.lax.scan(lambda c, i: (part(*given), c), part(*given), length=2)[1]]",
    "[t[1] for t in jax.lax.map(lambda i: part(*given), jnp.arange(2))]",
    "[t[1] for t in jax.vmap(part)(*[jnp.stack([t[::-1] if t.ndim else t, t]) for t in given])]",
    "[t + d for t, d in zip(*jax.jvp(part, given, given))]",
    "(lambda out, back: [t + sum(map(jnp.sum, back(out))) for t in out])"
    "(*jax.vjp(jax.checkpoint(part, policy=jax.checkpoint_policies.everything_saveable), *given))",
)


def _templates() -> dict[str, list[str]]:
    """The lines that programs are made of, by what they take."""
    found: dict[str, list[str]] = {}
    for line in Path(__file__).with_name("lines.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            section.append(line)
    return found


TEMPLATES = _templates()


@dataclass(frozen=True)
class Argument:
    """An argument: its shape, element type, and the axes of each dimension; None leaves it open."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    specs: Specs | None

    def value(self, seed: int) -> np.ndarray[Any, Any]:
        """Small numbers, of either sign."""
        numbers = np.random.default_rng([seed, *map(ord, self.name)])
        kind = KINDS[self.dtype]
        if kind in "iub":
            low, high = {"i": (-3, 4), "u": (0, 7), "b": (0, 2)}[kind]
            return np.asarray(numbers.integers(low, high, self.shape)).astype(self.dtype)
        values = numbers.normal(size=self.shape)
        if kind == "c":
            values = values + 1j * numbers.normal(size=self.shape)
        return np.asarray(values).astype(jnp.dtype(self.dtype))


@dataclass(frozen=True)
class Line:
    """One assignment, `name = text`."""

    name: str
    text: str

    @property
    def reads(self) -> set[str]:
        """The values it reads."""
        return set(re.findall(r"\b[av]\d+\b", self.text))


@dataclass(frozen=True)
class Program:
    """A function, its arguments, the mesh, by which cost it is planned, what nests some lines."""

    seed: int
    mesh: tuple[tuple[str, int], ...]
    arguments: tuple[Argument, ...]
    lines: tuple[Line, ...]
    results: tuple[str, ...]
    cost: str = "default"
    nest: str = ""
    nested: tuple[str, ...] = ()

    @property
    def options(self) -> dtensor.CompileOptions:
        """How it is compiled."""
        found: dtensor.CompileOptions = eval(COSTS[self.cost])
        return found

    @property
    def source(self) -> str:
        """The function as text."""
        names = ", ".join(argument.name for argument in self.arguments)
        body = [f"    {line.name} = {line.text}" for line in self.lines]
        inner = [k for k, line in enumerate(self.lines) if self.nest and line.name in self.nested]
        if inner:
            first, end = inner[0], inner[-1] + 1
            part = self.lines[first:end]
            made = "".join(f"{line.name}, " for line in part)
            read = "".join(f"{name}, " for name in sorted(_read(part)))
            body[first:end] = [
                f"    def part({read}):",
                *[f"    {text}" for text in body[first:end]],
                f"        return ({made})",
                f"    given = ({read})",
                f"    {made}= {self.nest}",
            ]
        results = "".join(f"{name}, " for name in self.results)
        return "\n".join([f"def program({names}):", *body, f"    return ({results})"])

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The function."""
        scope = scope_of(self.mesh)
        exec(compile(self.source, "<program>", "exec"), scope)
        function: Callable[..., Any] = scope["program"]
        return function

    @property
    def values(self) -> list[np.ndarray[Any, Any]]:
        """The arguments."""
        return [argument.value(self.seed) for argument in self.arguments]

    def layouts(self, mesh: dtensor.Mesh) -> tuple[dtensor.Layout | None, ...]:
        """The layouts of the arguments."""
        return tuple(
            None if a.specs is None else dtensor.Layout([s or None for s in a.specs], mesh)
            for a in self.arguments
        )

    def script(self) -> str:
        """A program to be run by itself, which says what differs."""
        devices = int(np.prod([size for _, size in self.mesh]))
        layouts = []
        for argument in self.arguments:
            specs = argument.specs
            words = None if specs is None else [word or None for word in specs]
            layouts.append("None" if words is None else f"dtensor.Layout({words}, mesh)")
        return "\n".join(
            [
                "import jax, jax.numpy as jnp, numpy as np, dtensor",
                "from tests.py.fuzz.programs import Argument",
                f'dtensor.initialize_accelerator_system("CPU", num_logical_cpu_devices={devices})',
                f"mesh = dtensor.create_mesh({list(self.mesh)})",
                self.source,
                f"arguments = {list(self.arguments)}",
                f"values = [argument.value({self.seed}) for argument in arguments]",
                f"layouts = ({', '.join(layouts)},)",
                f"options = {COSTS[self.cost]}",
                "how = {'in_layouts': layouts, 'mesh': mesh, 'options': options}",
                "print(dtensor.verify(program, *values, **how))",
            ]
        )


def scope_of(mesh: Sequence[tuple[str, int]]) -> dict[str, Any]:
    """What the text of a function may name."""
    on = dtensor.create_mesh(mesh)
    return {"jax": jax, "jnp": jnp, "np": np, "dtensor": dtensor, "mesh": on}


def program(seed: int, meshes: Sequence[tuple[tuple[str, int], ...]] = MESHES) -> Program:
    """The program of a seed, on one of some meshes."""
    rng = random.Random(seed)
    mesh = rng.choice(meshes)
    arguments = []
    for number in range(rng.randint(1, 3)):
        shape = _shape(rng, mesh)
        dtype = rng.choice(["float32"] * 4 + list(KINDS))
        specs = _specs(rng, shape, mesh) if rng.random() < 0.85 else None
        arguments.append(Argument(f"a{number}", shape, dtype, specs))
    known = {a.name: jax.ShapeDtypeStruct(a.shape, jnp.dtype(a.dtype)) for a in arguments}
    lines: list[Line] = []
    wanted = rng.randint(1, 12)
    for _ in range(4 * wanted):
        if len(lines) == wanted:
            break
        line = _line(rng, known, mesh, len(lines))
        made = _result(line, known, mesh)
        if made is not None:
            known[line.name] = made
            lines.append(line)
    names = [line.name for line in lines] or [arguments[0].name]
    kept = {names[-1], *rng.sample(names, min(len(names), rng.randint(0, 2)))}
    found = Program(seed, mesh, tuple(arguments), tuple(lines), tuple(sorted(kept)))
    return needed(_nested(rng, found, known))


def _nested(rng: random.Random, program: Program, known: dict[str, Any]) -> Program:
    """The program with some of its lines in a loop, a branch or the like; sometimes as it is."""
    names = [line.name for line in program.lines]
    if not names or rng.random() < 0.5:
        return program
    first = rng.randrange(len(names))
    some = tuple(names[first : rng.randint(first, len(names)) + 1])
    found = replace(program, nest=rng.choice(NESTS), nested=some)
    try:
        made = jax.eval_shape(replace(found, results=tuple(names)).function, *program.values)
    except Exception:  # whatever jax says
        return program
    types = [(value.shape, value.dtype) for value in made]
    return found if types == [(known[n].shape, known[n].dtype) for n in names] else program


def _read(lines: Sequence[Line]) -> set[str]:
    """What lines read that they do not make."""
    return {name for line in lines for name in line.reads} - {line.name for line in lines}


def needed(program: Program) -> Program:
    """The program without what its results do not need; all its arguments stay."""
    wanted, lines = set(program.results), []
    for line in reversed(program.lines):
        if line.name in wanted:
            lines.append(line)
            wanted |= line.reads
    used = tuple(a for a in program.arguments if a.name in wanted) or program.arguments[:1]
    return replace(program, lines=tuple(reversed(lines)), arguments=used)


def _shape(rng: random.Random, mesh: Sequence[tuple[str, int]]) -> tuple[int, ...]:
    even = [rng.randint(1, 4) * size for _, size in mesh]
    even.append(rng.randint(1, 3) * math.prod(size for _, size in mesh))
    while True:
        rank = rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4])
        shape = tuple(rng.choice(rng.choice([SIZES, even])) for _ in range(rank))
        if np.prod(shape) <= MAX_ELEMENTS and (0 not in shape or rng.random() < 0.3):
            return shape


def _specs(rng: random.Random, shape: Sequence[int], mesh: Sequence[tuple[str, int]]) -> Specs:
    words: list[list[str]] = [[] for _ in shape]
    left = list(shape)
    for name, size in rng.sample(list(mesh), len(mesh)):
        may_pad = rng.random() < 0.2
        dims = [d for d, n in enumerate(left) if n % size == 0 or (may_pad and n > 1)]
        if dims and rng.random() < 0.75:
            d = rng.choice(dims)
            words[d].append(name)
            left[d] = -(-left[d] // size)
    return tuple(map(tuple, words))


def _constraint(
    rng: random.Random, shape: Sequence[int], mesh: Sequence[tuple[str, int]]
) -> list[str]:
    """The text of what splits each dimension: axes, parts of axes, blocks, and open ends."""
    refs = []
    for name, size in mesh:
        if size % 4 == 0 and rng.random() < 0.4:
            refs += [(f"dtensor.AxisRef('{name}', 1, 2)", 2)]
            refs += [(f"dtensor.AxisRef('{name}', 2, {size // 2})", size // 2)]
        else:
            refs.append((repr(name), size))
    rng.shuffle(refs)
    words: list[list[str]] = [[] for _ in shape]
    left = list(shape)
    for text, size in refs:
        dims = [d for d, n in enumerate(left) if n % size == 0]
        if dims and rng.random() < 0.75:
            d = rng.choice(dims)
            if left[d] % (2 * size) == 0 and rng.random() < 0.15:
                words[d].append("2")
                left[d] //= 2
            words[d].append(text)
            left[d] //= size
    for word in words:
        if rng.random() < 0.2:
            word.append("dtensor.OPEN")
    return [f"({', '.join(word)},)" if word else "None" for word in words]


def _line(
    rng: random.Random, known: dict[str, Any], mesh: Sequence[tuple[str, int]], number: int
) -> Line:
    names = list(known)
    x = rng.choice(names[-3:] if rng.random() < 0.6 else names)
    value = known[x]
    if rng.random() < 0.1:
        words = ", ".join(_constraint(rng, value.shape, mesh))
        return Line(f"v{number}", f"dtensor.relayout({x}, dtensor.Layout([{words}], mesh))")
    kind, rank = KINDS.get(value.dtype.name, "f"), len(value.shape)
    keys = [key for key in TEMPLATES if kind in key[:-1] and int(key[-1]) <= rank]
    text = rng.choice([text for key in keys for text in TEMPLATES[key]])
    alike = [n for n, v in known.items() if (v.shape, v.dtype) == (value.shape, value.dtype)]
    d = rng.randrange(rank) if rank else 0
    drawn = {
        "x": x,
        "y": rng.choice(alike),
        "d": d,
        "e": rng.randrange(rank) if rank else 0,
        "n": max(1, value.shape[d]) if rank else 1,
        "k": rng.randint(1, 3),
    }
    return Line(f"v{number}", re.sub(r"\{([xydenk])\}", lambda m: str(drawn[m[1]]), text))


def _result(line: Line, known: dict[str, Any], mesh: Sequence[tuple[str, int]]) -> Any:
    """Shape and element type of what a line gives; None if jax refuses it, or it is too large."""
    names, scope = list(known), scope_of(mesh)
    try:
        function = eval(f"lambda {', '.join(names)}: {line.text}", scope)
        made = jax.eval_shape(function, *known.values())
    except Exception:  # whatever jax says of shapes and types that do not fit
        return None
    is_array = hasattr(made, "shape") and made.dtype.name in KINDS
    return made if is_array and np.prod(made.shape) <= MAX_ELEMENTS and made.ndim <= 5 else None
