"""The ledger: one append-only list of records of why the compiler did what it did.

Ids live in MLIR locations: the import pass numbers every op and wraps its location as
`fused<id>[location]`; an op that a pass creates carries the id of the record it was created for.
Records number from `FIRST_RECORD`, so an id tells which of the two it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from dtensor.dialect.mlir import ir
from dtensor.passes.locations import location_text, tag, tagged_id

if TYPE_CHECKING:
    from dtensor.passes.planning.provenance import Provenance

FIRST_RECORD = 1 << 32
GATHERED_AGAIN = "gathered_again"  # a kind of records


@dataclass(frozen=True, slots=True)
class Record:
    """One decision.

    Attributes:
        id: number of the record, from `FIRST_RECORD`.
        kind: `plan`, `relayout`, `cut`, `fallback`, `refusal`, `moved argument`, `warning`, ...
            docs/ledger.md has all of them.
        text: the reason, one sentence.
        ops: ids of the ops concerned, the responsible one first.
        axes: names of the mesh axes concerned.
        parents: ids of the records that led to this one.
        before: layout before, written form; empty if it does not apply.
        after: layout after, likewise.
        bytes: planned wire bytes per device and per execution.
        seconds: planned seconds under the cost model.
        communication: of a plan, how many of its seconds it communicates; of what is gathered
            again, all.
        bound: of a plan, seconds that no other falls below; 0 if not known.
        runner_up: of a relayout, what could be done instead and what that costs, in words.
        location: `file:line:col` of the program line concerned; empty if unknown.
        asked_for: whether the user asked for it; what nobody asked for is an error under `strict`.
    """

    id: int
    kind: str
    text: str
    ops: tuple[int, ...] = ()
    axes: tuple[str, ...] = ()
    parents: tuple[int, ...] = ()
    before: str = ""
    after: str = ""
    bytes: float = 0.0
    seconds: float = 0.0
    communication: float = 0.0
    bound: float = 0.0
    runner_up: str = ""
    location: str = ""
    asked_for: bool = True


@dataclass
class NodeFacts:
    """What explanations need to know of the graph after the IR has changed."""

    names: list[str]
    kinds: list[str]
    slots: list[int]
    locations: list[ir.Location | str]
    operands: list[list[int]]
    results: list[list[int]]
    producer: list[int]
    ranks: list[int]  # per value
    given: frozenset[int]  # nodes whose layouts the user fixed


@dataclass
class Ledger:
    """Records, and the ops they speak of."""

    records: list[Record] = field(default_factory=list)
    op_names: list[str] = field(default_factory=list)
    op_locations: list[ir.Location | str] = field(default_factory=list)
    trails: list[Provenance] = field(default_factory=list)
    facts: NodeFacts | None = None
    rewrites: list[str] = field(default_factory=list)  # names of those that changed something
    padded_results: set[int] = field(default_factory=set)  # split as they are padded, not as given
    _once: dict[tuple[object, ...], Record] = field(default_factory=dict)

    def copy(self) -> Ledger:
        """One that begins with the same records."""
        once, padded = dict(self._once), set(self.padded_results)
        records, trails = list(self.records), list(self.trails)
        names, locations = list(self.op_names), list(self.op_locations)
        rewrites = list(self.rewrites)
        return Ledger(records, names, locations, trails, self.facts, rewrites, padded, once)

    def add(
        self, kind: str, text: str, at: ir.Location | ir.Operation | None = None, **fields: Any
    ) -> Record:
        """Append a record.

        Args:
            kind: see `Record`.
            text: the reason, one sentence.
            at: the op or location concerned; its op id and its line enter the record.
            fields: the other fields of `Record`.
        """
        location = at.location if isinstance(at, ir.Operation) else at
        if location is not None:
            fields.setdefault("location", location_text(location))
            op_id = tagged_id(location)
            if op_id is not None:
                fields.setdefault("ops", (op_id,))
        for name in ("bytes", "seconds", "communication", "bound"):
            fields[name] = float(fields.get(name, 0.0))
        record = Record(FIRST_RECORD + len(self.records), kind, text, **fields)
        self.records.append(record)
        return record

    def add_op(self, op: ir.Operation) -> None:
        """Give an operation an id of its own, ahead of that of the one in whose place it stands."""
        self.op_locations.append(op.location)
        op.location = tag(op.location, len(self.op_names))
        self.op_names.append(op.name)

    def warn(self, at: ir.Location | ir.Operation | None, message: str) -> Record:
        """Append a warning, once per place and message."""
        where = at.location if isinstance(at, ir.Operation) else at
        key = ("" if where is None else location_text(where), message)
        if key not in self._once:
            self._once[key] = self.add("warning", message, at)
        return self._once[key]

    def record(self, number: int) -> Record | None:
        """The record with this id; None if the id names an op."""
        index = number - FIRST_RECORD
        return self.records[index] if 0 <= index < len(self.records) else None

    def of_kind(self, *kinds: str) -> Iterator[Record]:
        """The records of these kinds, in order."""
        return (record for record in self.records if record.kind in kinds)

    def unasked(self) -> Sequence[Record]:
        """What nobody asked for: errors under `strict`."""
        return [record for record in self.records if not record.asked_for]

    def detach(self) -> None:
        """Write all locations as text: as MLIR's they keep a context alive, of 2.6 MB."""
        self.op_locations = [location_text(location) for location in self.op_locations]
        if self.facts is not None:
            self.facts.locations = [location_text(each) for each in self.facts.locations]

    def __getstate__(self) -> dict[str, Any]:
        self.detach()  # MLIR's locations cannot be pickled
        return self.__dict__

    def to_json(self) -> dict[str, Any]:
        """The ledger as JSON values: `{"version", "ops", "records", "rewrites"}`.

        docs/ledger.md says what is in them.
        """
        ops = [
            {"id": i, "name": name, "location": location_text(location)}
            for i, (name, location) in enumerate(zip(self.op_names, self.op_locations, strict=True))
        ]
        records = []
        for record in self.records:
            entry = asdict(record)
            records.append({k: list(v) if isinstance(v, tuple) else v for k, v in entry.items()})
        return {"version": 1, "ops": ops, "records": records, "rewrites": self.rewrites}
