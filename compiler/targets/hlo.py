"""The collectives of a program as XLA optimised it, read from the text of its HLO."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dtensor.compiler.targets.hlo_text import Computation, HloText, Instruction
from dtensor.passes.cost.model import (
    all_gather_bytes,
    all_reduce_bytes,
    all_to_all_bytes,
    permute_bytes,
    reduce_scatter_bytes,
)

_KINDS = {
    "all-gather": "all_gather",
    "all-reduce": "all_reduce",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "ragged-all-to-all": "all_to_all",
    "collective-permute": "collective_permute",
    "collective-broadcast": "collective_broadcast",
}
_NAME = re.compile(r"%[\w.-]+")
_CHANNEL = re.compile(r"\bchannel_id=(\d+)")
_LISTED_GROUPS = re.compile(r"replica_groups=\{\{([\d,]*)\}")
_IOTA_GROUPS = re.compile(r"replica_groups=\[\d+,(\d+)\]")
_ARRAY = re.compile(r"\b([a-z]+[0-9]*[a-z0-9]*)\[([\d,]*)\]")
_NOT_SHAPE = re.compile(r"/\*.*?\*/|\{[^{}]*\}")  # comments, and layouts with their tiles
_BITS = re.compile(r"(?:bf|[a-z])(\d+)")


@dataclass(frozen=True)
class HloCollective:
    """One collective of optimised HLO.

    Attributes:
        kind: `all_gather`, `all_reduce`, `reduce_scatter`, `all_to_all`, `collective_permute` or
            `collective_broadcast`.
        bytes: wire bytes per device of one execution, on a ring, as plans count them.
        trip_count: executions per call of the program; None in a loop of unknown length.
    """

    kind: str
    bytes: float
    trip_count: int | None


def hlo_collectives(text: str, devices: int) -> tuple[HloCollective, ...]:
    """The collectives of an optimised HLO module; a pair of -start and -done is one.

    Args:
        text: the module.
        devices: how many devices run it.
    """
    module = HloText.parse(text)
    return tuple(_walk(module, module.entry, 1, devices, None))


def _walk(
    module: HloText, name: str, trips: int | None, devices: int, fused: set[str] | None
) -> Iterator[HloCollective]:
    """The collectives of a computation; of a fusion, those whose channel is not in `fused`.

    A TPU spreads a collective over several fusions, its begin and its end and computations in
    between that go on with it, and each of them names it, with its one channel.
    """
    computation = module.computations.get(name)
    if computation is None:
        return
    here: set[str] = set()
    for instruction in computation.instructions:
        op = instruction.op
        if op.endswith(("-done", "-update")):
            continue  # the other end of an asynchronous pair names the same computation
        kind = _KINDS.get(op.removesuffix("-start"))
        if kind is not None:
            channel = _CHANNEL.search(instruction.rest)
            if fused is None or channel is None or channel[1] not in fused:
                yield _collective(computation, instruction, kind, trips, devices, fused)
            if fused is not None and channel is not None:
                fused.add(channel[1])
            continue
        inside = trips
        if op == "while" and trips is not None:
            once = module.trip_count(computation, instruction)
            inside = None if once is None else trips * once
        within = None if op != "fusion" else here if fused is None else fused
        for called in instruction.called:
            yield from _walk(module, called, inside, devices, within)


def _collective(
    computation: Computation,
    instruction: Instruction,
    kind: str,
    trips: int | None,
    devices: int,
    fused: set[str] | None,
) -> HloCollective:
    n = _group_size(instruction.rest, devices)
    if kind == "all_reduce" and fused is not None:
        piece = _piece_of(computation, instruction)
        if piece is not None:
            kind, instruction = "reduce_scatter", piece
    size = _bytes(_result(computation, instruction))
    return HloCollective(kind, _wire(kind, size, n), trips)


def _piece_of(computation: Computation, reduced: Instruction) -> Instruction | None:
    """The slice that is all that a fusion keeps of an all-reduce.

    So a TPU writes a reduce-scatter that it runs as one, its `AllReduceScatterFusion`.
    """
    name = f"%{reduced.name}"
    users = [each for each in computation.instructions if name in _NAME.findall(each.rest)]
    (piece,) = users if len(users) == 1 else (None,)
    return piece if piece is not None and piece.op == "dynamic-slice" else None


def _wire(kind: str, result_bytes: float, n: int) -> float:
    if kind == "all_gather":
        return all_gather_bytes(result_bytes, n)
    if kind == "all_reduce":
        return all_reduce_bytes(result_bytes, n)
    if kind == "reduce_scatter":
        return reduce_scatter_bytes(result_bytes * n, n)
    if kind == "all_to_all":
        return all_to_all_bytes(result_bytes, n)
    return permute_bytes(result_bytes)


def _result(computation: Computation, instruction: Instruction) -> str:
    """The type of a collective's result."""
    if instruction.op.endswith("-start"):
        done = computation.done.get(instruction.name)
        if done is not None:
            return _NOT_SHAPE.sub("", done.shape)
    shape = _NOT_SHAPE.sub("", instruction.shape)
    if not instruction.op.endswith("-start"):
        return shape
    if instruction.op == "all-reduce-start" and not shape.startswith("(("):
        return shape  # an older XLA leaves out the operand
    return _elements(shape)[1]  # (operand, result, contexts ...)


def _elements(shape: str) -> list[str]:
    """The types in a tuple type."""
    found, depth = [""], 0
    for letter in shape[1:-1]:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return found


def _bytes(shape: str) -> float:
    total = 0.0
    for element, sizes in _ARRAY.findall(shape):
        total += _bits(element) / 8 * math.prod(int(n) for n in sizes.split(",") if n)
    return total


def _bits(element: str) -> int:
    if element in ("pred", "token"):
        return 8 if element == "pred" else 0
    known = _BITS.match(element)
    assert known is not None, f"HLO has the element type {element}"
    return int(known[1])


def _group_size(rest: str, devices: int) -> int:
    listed = _LISTED_GROUPS.search(rest)
    if listed is not None:
        return len(listed[1].split(","))
    iota = _IOTA_GROUPS.search(rest)
    return devices if iota is None else int(iota[1])
