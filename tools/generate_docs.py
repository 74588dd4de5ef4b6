"""Writes the pages of docs/ that list what the tables hold.

python -m dtensor.tools.generate_docs            writes them
python -m dtensor.tools.generate_docs --check    says which are out of date; exit status 1
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from dtensor.dialect import names
from dtensor.dialect.layout import REDUCTIONS
from dtensor.dialect.ops import ANY, OPS, DTensorOp
from dtensor.passes import cxx
from dtensor.passes.base import options_of
from dtensor.passes.pipelines import PIPELINES, SUMMARIES
from dtensor.passes.registry import PASSES, pass_class
from dtensor.passes.rewriting.table import RewritesPass

DOCS = Path(__file__).resolve().parent.parent / "docs"
_NOTE = "<!-- Written by tools/generate_docs.py from {}; edit those, not this. -->"

_FORMS = (
    (
        '#dtensor.mesh<["x"=2, "y"=4]>',
        "a mesh: axes and their sizes in devices, the first axis major; "
        "`device_ids=[...]` behind the axes where devices are in another order",
    ),
    (
        '#dtensor.layout<@mesh, [{"x"}, {}]>',
        "how an array lies on the mesh `@mesh`: one word per dimension, `{}` is whole",
    ),
    ('{"x", "y"}', "split over two axes, the first major"),
    ('{"y":(1)2}', "split over a part of an axis: 2 devices, behind 1"),
    ('{3, "x"}', "three blocks, each split over `x`"),
    ('{?}, {"x", ?}', "open: propagation may add axes"),
    ('{?!"x"}', "open to all axes but `x`"),
    (
        '{"x"}p1',
        "a priority: spreads after what has a smaller number; see "
        "[propagation](propagation.md#priorities)",
    ),
    (
        'partial = {sum: "x"}',
        "the devices along `x` hold parts that still have to be combined "
        f"({', '.join(REDUCTIONS)}); several axes stand in parentheses",
    ),
    ('#dtensor.axes<@mesh, ["x", "y":(1)2]>', "axes of a collective, the first major"),
)


def pages() -> dict[str, str]:
    """The text of each generated page, by file name."""
    return {
        "dialect.md": _page(_dialect()),
        "operations.md": _page(_operations()),
        "passes.md": _page(_passes()),
    }


def main(arguments: list[str] | None = None) -> int:
    """Write the pages, or compare them with what is there."""
    parser = argparse.ArgumentParser(prog="generate_docs", description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    check = parser.parse_args(arguments).check
    stale = [name for name, text in pages().items() if _read(DOCS / name) != text]
    for name in stale:
        if not check:
            (DOCS / name).write_text(pages()[name], encoding="utf-8")
        print(f"docs/{name} {'is out of date' if check else 'written'}", file=sys.stderr)
    return 1 if check and stale else 0


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _page(lines: Iterator[str]) -> str:
    return "\n".join(lines) + "\n"


def _paragraphs(thing: object) -> list[str]:
    """A docstring's paragraphs, each on one line."""
    text = inspect.cleandoc(getattr(thing, "__doc__", None) or "")
    return [" ".join(part.split()) for part in text.split("\n\n")]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


# Passes.


def _passes() -> Iterator[str]:
    yield "# Passes"
    yield ""
    yield _NOTE.format("passes/registry.py and passes/pipelines.py")
    yield ""
    yield "Each runs alone from [dtensor-opt](dtensor-opt.md): `--name`, `--name=option=value`."
    for name in PASSES:
        yield f"\n## {name}"
        cls = pass_class(name)
        for paragraph in _paragraphs(cls):
            yield f"\n{paragraph}"
        if issubclass(cls, RewritesPass):
            yield ""
            for rewrite, file in cls.rewrites().items():
                yield f"- `{rewrite}`: {' '.join(_paragraphs(file))}"
        options = options_of(cls)
        if options:
            yield "\n| option | type | default | |\n| --- | --- | --- | --- |"
        for o in options:
            yield f"| `{o.name}` | {o.type} | `{o.default}` | {_cell(o.help)} |"
    yield "\n## Pipelines"
    for name, stages in PIPELINES.items():
        yield f"\n### {name}\n\n{SUMMARIES[name][0].upper()}{SUMMARIES[name][1:]}."
        yield "\n| pass | why it stands there |\n| --- | --- |"
        for stage in stages:
            yield f"| `{stage.text}` | {_cell(stage.reason)} |"
    yield "\n## C++ passes of jaxlib"
    yield """
These mix with the passes above, with their own options in `{...}`. Which of them run on the module
and which inside `func.func(...)`, `dtensor-opt --list-passes` says; it differs between jaxlibs.
"""
    yield ", ".join(f"`{name}`" for name in sorted(cxx.CXX_PASSES)) + "."


# Operations.


def _operations() -> Iterator[str]:
    from dtensor.passes.ops.elementwise import PARTIAL_PASSES, SWAPS
    from dtensor.passes.ops.opdef import no_rule
    from dtensor.passes.ops.table import OPS as LINES
    from dtensor.passes.ops.table import opdef

    table = {name: opdef(name) for name in LINES}

    yield "# Operations"
    yield ""
    yield _NOTE.format("passes/ops/table.py and the files it names")
    yield """
A rule says which dimensions of an operation move together and which partial values may pass through
it; `dtensor-opt --dtensor-print-rules` prints the rule of every operation of a module. An algorithm
says how one device computes its share; the one that was chosen stands on each operation as
`dtensor.algorithm`. An operation that is not here, or about which its rule says nothing, reads and
writes whole arrays, and the ledger has a `fallback` record of it. Loops, branches, calls and
barriers have no rule: propagation follows their values (see [propagation](propagation.md)).

A factor is passed through or reduced, which each shard does by itself, or it has a kind that needs
an algorithm: a window, a scan, an order, a transform. Dimensions without a factor are whole.

| rule | operations | what it says | flops |
| --- | --- | --- | --- |"""
    by_definition: dict[int, list[str]] = {}
    for op, definition in table.items():
        by_definition.setdefault(id(definition), []).append(op)
    groups = sorted(by_definition.values())
    refused = {op: definition.refused for op, definition in table.items() if definition.refused}
    for ops in groups:
        if ops[0] in refused or (table[ops[0]].anew and table[ops[0]].rule is no_rule):
            continue
        function = table[ops[0]].rule
        where = f"{function.__module__.rsplit('.', 1)[1]}.{function.__name__}"
        flops = "none" if table[ops[0]].moves_only else _cell(_paragraphs(table[ops[0]].flops)[0])
        yield f"| `{where}` | {_listed(ops)} | {_cell(_paragraphs(function)[0])} | {flops} |"
    yield """
`local` is right on each shard once its types are local, after what stands here, if anything:

| operation | algorithm | what one device does |
| --- | --- | --- |"""
    for ops in groups:
        for algorithm in table[ops[0]].algorithms:
            if algorithm.expand is not None:
                what = _cell(_paragraphs(algorithm.expand)[0])
                yield f"| {_listed(ops)} | `{algorithm.name}` | {what} |"
    yield """
What planning may do:

| | operations |
| --- | --- |"""
    for attribute, meaning in _FREEDOMS.items():
        having = [op for op, definition in table.items() if getattr(definition, attribute)]
        yield f"| {meaning} | {_listed(having)} |"
    yield "\nRefused, outside of `jax.shard_map`:\n"
    yield "| | operations |\n| --- | --- |"
    for why in dict.fromkeys(refused.values()):
        yield f"| {why} | {_listed([op for op in refused if refused[op] == why])} |"
    yield """
Partial values through element-wise operations, P for a part and c for a complete operand; every
other combination needs the complete value:

| reduction | operations |
| --- | --- |"""
    for reduction, combinations in PARTIAL_PASSES.items():
        listed = ", ".join(f"{op} {' or '.join(forms)}" for op, forms in combinations.items())
        yield f"| {reduction} | {listed} |"
    swaps = [
        f"{op} turns parts of {before} into parts of {after}"
        for op, kinds in SWAPS.items()
        for before, after in kinds.items()
    ]
    yield f"\n{'; '.join(swaps)}. Some hold for floats only: see `ONLY` in the file."
    yield """
Parts of a sum of floats are multiplied by c only where the program shows that c is not infinite,
and divided by c where it shows that c is not zero: constants, masks, what is bounded. Of a part
that is zero anything else could make NaN. Dot products and convolutions pass parts likewise. Of
rows picked from a split table shards know which are theirs: their products are `gather_dot`s."""


_FREEDOMS = {
    "fuses": "fused with its neighbours: what is between them is not written to memory",
    "costly": "computed once, where what is cheaper is computed again in each fusion that reads it",
    "in_place": "written over the first operand, if that is read no more",
    "rematerialisable": "computed again wherever it is needed, if it reads scalars alone",
    "must_divide": "if large, never left undivided over an axis that could divide it",
    "moves_only": "moves elements and computes nothing",
    "resizes": "computed in the size of what it is used with: see dtensor-fuse-cuts",
    "anew": "written as others that propagation knows better: see dtensor-find-forms",
    "varies": "gives other results on another device, or each time",
    "padding": "longer along dimensions that are not divided: what stands there is not seen",
}


def _listed(ops: list[str]) -> str:
    return " ".join(f"`{op}`" for op in ops)


# The dialect.


def _dialect() -> Iterator[str]:
    yield "# The dtensor dialect"
    yield ""
    yield _NOTE.format("dialect/ops.py and dialect/names.py")
    yield "\n## Attributes\n\n| written form | what it is |\n| --- | --- |"
    for form, meaning in _FORMS:
        yield f"| `{form}` | {_cell(meaning)} |"
    yield "\nOn operations outside the dialect:\n\n| attribute | meaning |\n| --- | --- |"
    for name, meaning in names.DISCARDABLE.items():
        yield f"| `{name}` | {_cell(meaning)} |"
    yield "\n## Operations"
    for name, op in OPS.items():
        yield from _operation(name, op)


def _operation(name: str, op: type[DTensorOp]) -> Iterator[str]:
    yield f"\n### {name}"
    for paragraph in _paragraphs(op):
        yield f"\n{paragraph}"
    yield f"\nOperands: {_count(op.OPERANDS)}; results: {_count(op.RESULTS)}."
    yield "\n| attribute | |\n| --- | --- |"
    for attribute, kind in op.ATTRIBUTES.items():
        optional = " (optional)" if kind.is_optional else ""
        yield f"| `{attribute}` | {_cell(kind.form)}{optional} |"


def _count(number: int | None) -> str:
    return {None: "one or more", ANY: "any number"}.get(number, str(number))


if __name__ == "__main__":
    sys.exit(main())
