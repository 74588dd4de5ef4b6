"""Contexts, and reading modules into them."""

from __future__ import annotations

import re
from dataclasses import replace

from dtensor.dialect.borders import settle_border
from dtensor.dialect.diagnostics import Diagnostic, LocatedError, Place, from_mlir, name_source
from dtensor.dialect.encoding import BYTECODE_MAGIC, decodable, opaque_texts
from dtensor.dialect.mlir import every, extend_context, ir
from dtensor.dialect.modules import read_module
from dtensor.dialect.resources import inline_resources

_PROPERTIES = re.compile(r'"dtensor\.[^"]*"\s*\([^)]*\)\s*<\{')


def make_context() -> ir.Context:
    """A context that knows StableHLO, CHLO, Shardy and, through our own verifier, dtensor.

    MLIR itself must accept operations it does not know, because the dialect is defined in Python:
    `dtensor.dialect.verify` is what rejects the misspelt ones.
    """
    context = ir.Context()
    extend_context(context)
    context.allow_unregistered_dialects = True
    context.enable_multithreading(False)  # modules are small; keeps output in one order
    return context


def parse_module(source: str | bytes, filename: str = "<string>", first_line: int = 1) -> ir.Module:
    """Read a module, MLIR text or bytecode, into the current context, which keeps it.

    Args:
        source: the text, or the bytes of a text or bytecode file.
        filename: what messages call the source.
        first_line: line of `filename` on which `source` starts.

    Raises:
        LocatedError: MLIR cannot read it, or data of constants are not there; places are lines of
            `filename`.
    """
    context = ir.Context.current
    name_source(context, filename)
    is_bytecode = isinstance(source, bytes) and source.startswith(BYTECODE_MAGIC)
    if isinstance(source, bytes) and not is_bytecode:
        source = _decoded(source, filename)
    if isinstance(source, str):
        source = inline_resources("\n" * (first_line - 1) + source, filename)
    try:
        module = _decodable_module(source)
    except ir.MLIRError as failure:
        found = [item if item.place else _at_start(item, filename) for item in from_mlir(failure)]
        raise LocatedError.of([_explained(item) for item in found]) from None
    except ValueError as failure:  # truncated bytecode
        raise LocatedError(Place(filename, 1, 1), str(failure)) from None
    except MemoryError:  # of result numbers too, such as %0#2000000000
        wrong = "MLIR asks for more memory than there is to read it"
        raise LocatedError(Place(filename, 1, 1), wrong) from None
    if is_bytecode or (isinstance(source, str) and _PROPERTIES.search(source)):
        _properties_to_attributes(module)
    settle_border(module)
    return module


def _decodable_module(source: str | bytes) -> ir.Module:
    """Read a module whose text jaxlib can give to Python."""
    readable = decodable(source)
    module = read_module(readable)
    if readable is not source and (kept := opaque_texts(module)):
        module = read_module(decodable(source, kept))
    return module


def _at_start(item: Diagnostic, filename: str) -> Diagnostic:
    """Bytecode has no lines; the message must name the file all the same."""
    return replace(item, place=Place(filename, 1, 1))


_HINTS = {
    "!quant.": "; jaxlib has no quantised types: run stablehlo-legalize-quant-to-math first",
    "'HloModule' is unknown": "; this is HLO, XLA's own form: give StableHLO, as_text() of what jax"
    " has lowered and not yet compiled",
}


def _explained(item: Diagnostic) -> Diagnostic:
    """An error with what to do about what jaxlib reads as unknown."""
    hint = next((hint for found, hint in _HINTS.items() if found in item.message), "")
    return replace(item, message=item.message + hint) if item.severity == "error" else item


def _decoded(source: bytes, filename: str) -> str:
    bad = source.find(b"\0")  # where MLIR would stop reading
    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        bad = wrong.start
    if bad < 0:
        return text
    raise LocatedError(
        Place(filename, 1, 1),
        f"byte {bad} is neither UTF-8 text nor MLIR bytecode; "
        "give a .mlir file, or bytecode as --emit-bytecode writes it",
    )


def _properties_to_attributes(module: ir.Module) -> None:
    """Rewrite `"dtensor.op"() <{a = 1}>` as `{a = 1}`: properties cannot be listed from Python."""
    for op in [op for op in every(module.operation) if op.name.startswith("dtensor.")]:
        properties = _properties(op)
        if properties is not None:
            _recreate(op, properties)


def _properties(op: ir.Operation) -> ir.DictAttr | None:
    text = str(op)
    opening = text.find("<{")
    if opening < 0 or opening > text.find(")") + 2:
        return None  # the first parenthesis closes the operands; properties follow it
    depth = 0
    quoted = False
    for index in range(opening + 1, len(text)):
        character = text[index]
        if character == '"' and text[index - 1] != "\\":
            quoted = not quoted
        elif not quoted and character in "{}":
            depth += 1 if character == "{" else -1
            if depth == 0:
                return ir.DictAttr(ir.Attribute.parse(text[opening + 1 : index + 1]))
    return None


def _recreate(op: ir.Operation, properties: ir.DictAttr) -> None:
    attributes = {properties[i].name: properties[i].attr for i in range(len(properties))}
    for name in op.attributes:
        attributes[name] = op.attributes[name]
    new = ir.Operation.create(
        op.name,
        results=[result.type for result in op.results],
        operands=list(op.operands),
        attributes=attributes,
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    for old, replacement in zip(op.results, new.results, strict=True):
        old.replace_all_uses_with(replacement)
    op.erase()
