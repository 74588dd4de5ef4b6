"""Text in modules that is not UTF-8, which MLIR takes and jaxlib's Python cannot give.

Asked for the file of such a location, for the name of such an operation, or for MLIR's sentence
about either, jaxlib ends the process. So a module is read with `?` in the place of each such byte,
in all but the configurations of custom calls, which are bytes for whom they call.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from dtensor.dialect.mlir import every, ir

BYTECODE_MAGIC = b"ML\xefR"
_OPAQUE = ("backend_config", "mhlo.backend_config")
_ESCAPE = re.compile(r"\\[89A-Fa-f][0-9A-Fa-f]")
_LITERAL = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"')
_IN_LITERAL = re.compile(r'\\([\\"nt])|((?:\\[0-9A-Fa-f]{2})+)')
_PLAIN = {"n": b"\n", "t": b"\t"}
_STRINGS = 0  # the section of a bytecode file that all of its text stands in


def decodable(source: str | bytes, kept: Collection[bytes] = ()) -> str | bytes:
    """A module with `?` for each byte of its text that is not UTF-8; itself where there is none.

    Args:
        source: MLIR text, in which such a byte stands as an escape, or bytecode.
        kept: text, as it is without these bytes, that stays as it was.
    """
    if isinstance(source, str):
        if not _ESCAPE.search(source):
            return source
        return _LITERAL.sub(lambda found: _decodable_literal(found[0], kept), source)
    try:
        return _decodable_bytecode(source, kept)
    except (IndexError, ValueError):  # malformed or truncated, as MLIR will say better
        return source


def opaque_texts(module: ir.Module) -> set[bytes]:
    """The text in configurations of custom calls."""
    found: set[bytes] = set()
    for op in every(module.operation):
        attributes = op.attributes
        for name in _OPAQUE:
            if name in attributes:
                found.update(_texts(attributes[name]))
    return found


def _texts(attribute: ir.Attribute) -> Iterator[bytes]:
    if isinstance(attribute, ir.StringAttr):
        yield attribute.value_bytes
    elif isinstance(attribute, ir.DictAttr):
        for i in range(len(attribute)):
            yield from _texts(attribute[i].attr)
    elif isinstance(attribute, ir.ArrayAttr):
        for each in attribute:
            yield from _texts(each)


def _cleaned(text: bytes) -> bytes:
    """Text of the same length, with `?` for what is not UTF-8."""
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        found = text.decode("utf-8", "surrogateescape")
        return "".join("?" if "\udc80" <= c <= "\udcff" else c for c in found).encode()
    return text


def _decodable_literal(literal: str, kept: Collection[bytes]) -> str:
    if not literal.startswith('"') or not _ESCAPE.search(literal):
        return literal

    def clean(found: re.Match[str]) -> str:
        if not found[2]:
            return found[0]
        return "".join(f"\\{byte:02X}" for byte in _cleaned(_bytes_of(found[2])))

    changed = _IN_LITERAL.sub(clean, literal)
    whole = _IN_LITERAL.sub(lambda m: _bytes_of(m[0]).decode("latin-1"), changed)
    return literal if whole[1:-1].encode("latin-1", "replace") in kept else changed


def _bytes_of(escapes: str) -> bytes:
    """What one escape of a character, or several of bytes, write."""
    if escapes[1] in '\\"nt':
        return _PLAIN.get(escapes[1], escapes[1].encode())
    return bytes.fromhex(escapes.replace("\\", ""))


def _decodable_bytecode(source: bytes, kept: Collection[bytes]) -> bytes:
    start, end = _section(source, _STRINGS)
    count, at = _number(source, start)
    lengths = []
    for _ in range(count):
        length, at = _number(source, at)
        lengths.append(length)
    begin = end - sum(lengths)
    text = source[begin:end]
    if _cleaned(text) == text:
        return source
    found = []
    for length in reversed(lengths):  # they are written from the last to the first
        raw = source[begin : begin + length]
        changed = _cleaned(raw)
        found.append(raw if changed[:-1] in kept else changed)
        begin += length
    return source[: end - sum(lengths)] + b"".join(found) + source[end:]


def _section(source: bytes, wanted: int) -> tuple[int, int]:
    """Where a section of a bytecode file begins and ends."""
    _, at = _number(source, len(BYTECODE_MAGIC))  # the version
    at = source.index(b"\0", at) + 1  # who wrote it
    while True:
        kind = source[at]
        length, at = _number(source, at + 1)
        if kind & 0x80:
            alignment, at = _number(source, at)
            at += -at % alignment
        if kind & 0x7F == wanted:
            return at, at + length
        at += length


def _number(source: bytes, at: int) -> tuple[int, int]:
    """A number as bytecode writes it, and what comes behind it.

    The zeros at the low end of the first byte say how many bytes follow; eight zeros, eight.
    """
    first = source[at]
    more = 8 if first == 0 else (first & -first).bit_length() - 1
    end = at + 1 + more
    number = int.from_bytes(source[at:end], "little") >> (more + 1)
    if first == 0:
        number = int.from_bytes(source[at + 1 : end], "little")
    return number, end
