"""Strategies: the ways in which one node can use all mesh axes at once, from its rule.

Of many sub-axes there are too many strategies: then those are made in which some of the sub-axes
stay where a plan has them (`Moves`), and the rest may change.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice, takewhile

from dtensor.dialect.layout import Layout
from dtensor.dialect.manual import inner_layout
from dtensor.passes.graph import BORDERS, CARRY, JOINTS, MANUAL_EDGES, MANUAL_READ, OP, RESULT, Node
from dtensor.passes.ops.opdef import Placed
from dtensor.passes.ops.rule import OpInfo, OpRule
from dtensor.passes.ops.table import opdef
from dtensor.passes.planning.algorithms import cheapest, traffic_seconds
from dtensor.passes.planning.all_places import (
    HeldPlaces,
    SubAxes,
    all_places,
    groups_of,
    named_together,
)
from dtensor.passes.planning.blocks import BlockCounts, bit, block_counts, partial_kinds
from dtensor.passes.planning.joint_labels import Held, JointLabels
from dtensor.passes.planning.options import (
    Computed,
    Exchange,
    Options,
    Strategy,
    keeper,
    kept_by_node,
)
from dtensor.passes.planning.results import Ways, cut_axes, those_that_follow
from dtensor.passes.planning.work import work_of
from dtensor.passes.propagation.labels import Label
from dtensor.passes.propagation.places import WHOLE, Places, place_of
from dtensor.passes.propagation.task import Task
from dtensor.passes.sharding.specs import Specs

ResultPlaces = Mapping[int, frozenset[int] | None] | None  # by node; None is anywhere
Moves = tuple[frozenset[int], ...]  # sets of sub-axes; those of one may change together
Free = frozenset[int] | None  # sub-axes that may change; None if each stays or is taken off

_MOST_OF_NODE = 400  # strategies of one node
_LEAST_OF_NODE, _MOST_OF_ALL = 64, 6000  # of one node, at least, and of all, where few are kept
_LEAST_OF_MANY = 216  # of one node at least, where tensors have many dimensions: of 5, say, all
_LARGE_CARRY = 65_536  # bytes
_REPEATED = 8.0  # times what all devices compute alike is priced, where they could divide it
_ALIKE = (*BORDERS, *JOINTS)  # without a rule: one spec everywhere


class Maker:
    """Makes the strategies of nodes; equal ops share one list.

    Attributes:
        work: per node, its work, per execution.
        cut_axes: the sub-axes of each mesh axis that only the compiler cuts.
    """

    divides_anyhow = False  # whether matmuls may be divided more than as they start, less than most

    def __init__(
        self,
        task: Task,
        specs: Specs,
        result_places: Sequence[ResultPlaces],
        kept: Sequence[Mapping[int, Label]] = (),
    ) -> None:
        self.task = task
        self.graph = graph = task.graph
        self.kept = kept_by_node(kept)
        self.specs = specs
        self.result_places = result_places
        given = task.pins.layouts.values()
        self._apart = groups_of(specs.subaxes)
        self._together = named_together(specs.subaxes, given)
        self.cut_axes = cut_axes(specs, given)
        self._joint = JointLabels(specs, self._apart)
        self.work = work_of(graph, task.cost, task.free)
        self._kinds = partial_kinds(graph)
        self._memos: dict[bool, dict[object, tuple[Strategy, ...]]] = {False: {}, True: {}}
        self._memo = self._memos[False]
        self._computed: dict[tuple[int, Strategy], Computed | None] = {}
        self._passes_of: dict[int, tuple[int, ...]] = {}
        self._named = [any(place_of(x, axis) != WHOLE for x in given) for axis in specs.subaxes]
        self._used = [self._is_used(axis) for axis in range(len(specs.sizes))]
        found = block_counts(graph, min(specs.sizes, default=1), sum(self._used))
        self._blocks, self._factor_blocks, self.lacks_blocks = found
        self.most = _MOST_OF_NODE
        self.has_left_out = False  # whether some node had more strategies than were considered

    @property
    def mesh_axes(self) -> Moves:
        """The sub-axes of each mesh axis that anything may use."""
        return self._usable(self._apart)

    @property
    def named_axes(self) -> Moves:
        """The same, of mesh axes that annotations name."""
        return tuple([each for each in self.mesh_axes if any(self._named[a] for a in each)])

    @property
    def named_together(self) -> Moves:
        """The same, of mesh axes that annotations only name side by side in one set."""
        return self._usable(self._together)

    def _usable(self, groups: SubAxes) -> Moves:
        sets = [frozenset([axis for axis in group if self._used[axis]]) for group in groups]
        return tuple([each for each in sets if each])

    def keep_few(self, is_vast: bool) -> None:
        """Consider fewer strategies from now on; not so few where tensors have many dimensions."""
        least = _LEAST_OF_MANY if is_vast else _LEAST_OF_NODE
        self.most = max(least, _MOST_OF_ALL // max(len(self.graph.nodes), 1))

    def keep_all(self) -> None:
        """Leave none out from now on."""
        self.most = sys.maxsize

    def keep_parts_together(self, whether: bool) -> None:
        """From now on, let all parts of a mesh axis do the same, or each what it likes.

        So do mesh axes that annotations only name side by side.
        """
        self._joint.together = whether
        self._joint.groups = self._together if whether else self._apart
        self._memo = self._memos[whether]

    def _is_used(self, axis: int) -> bool:
        """Whether a sub-axis may split anything: the user names it, or large ops call for it.

        What nobody asked for is not spread over devices that nobody named: a small program keeps to
        the axes of its annotations.
        """
        large = self.task.min_flops * self.specs.devices
        return self._named[axis] or any(
            node.rule is not None and node.rule.flops >= large and opdef(node.name).must_divide
            for node in self.graph.nodes
        )

    def of(self, node: Node, start: Strategy, now: Strategy, moves: Moves | None) -> Options:
        """The strategies of a node, `now` among them; none that loses parallelism or memory.

        Args:
            node: of the graph.
            start: its strategy where the search starts: what must not be lost.
            now: its strategy in the present plan.
            moves: which sub-axes may change; None if each stays, or is taken off the node. Those of
                all sets may change at once where the node has few strategies.
        """
        free: Sequence[Free] = (None,) if moves is None else moves
        if moves and len(moves) > 1:
            every = frozenset[int]().union(*moves)
            free = (every,) if self.choices(node) ** len(every) <= self.most else moves
        sets = [self._all(node, now, each) for each in free]
        found = tuple(dict.fromkeys(chain.from_iterable(sets)))
        if len(found) > self.most:
            found = tuple(sorted(found, key=self._worth(node))[: self.most])
        if node.kind == RESULT:
            places = self.specs.rank(len(self.graph.types[node.subject].shape)).places
            found = those_that_follow(found, start, places, self.ways(node), self.cut_axes)
        elif node.kind == CARRY or self._reads_stack(node):
            found = self._frugal(node, found, start)
        if node.rule is not None:
            found = self._divided(node, node.rule, found, start)
        if node.index in self.kept:
            keeps = keeper(self.graph, self.specs, node, self.kept[node.index])
            found = tuple([s for s in found if keeps(s.ins, s.outs)])
        sides = self.specs.sides(self.graph, node)
        return Options(found if now in found else (now, *found), sides)

    def ways(self, node: Node) -> Ways:
        """Per sub-axis where a result that nobody laid out may have it; None is anywhere."""
        return [
            None if of is None else of.get(node.index, frozenset()) for of in self.result_places
        ]

    def choices(self, node: Node) -> int:
        """About how many ways there are for a node to use one sub-axis."""
        if node.rule is not None:
            blocks = self._factor_blocks.get(node.index, ())
            return 1 + len(node.rule.factors) + sum(map(len, blocks)) + len(self._passes(node))
        values = (*node.operands, *node.results)
        return 1 + max(
            [len(self.graph.types[v].shape) + sum(map(len, self._blocks[v])) for v in values],
            default=0,
        )

    def whole(self, node: Node) -> Strategy:
        """The strategy in which a node reads and writes whole values."""
        ins, outs = self.specs.sides(self.graph, node)
        reads, makes = (tuple([side.replicated for side in sides]) for sides in (ins, outs))
        return Strategy(reads, makes, 1)

    def _divided(
        self, node: Node, rule: OpRule, found: tuple[Strategy, ...], start: Strategy
    ) -> tuple[Strategy, ...]:
        """Those that leave a large op less divided than it could be are left out, or priced.

        A matmul is divided as it starts, or as far as it can be; of other ops, what all devices
        would compute alike counts several times, but for what constants alone say.
        """
        if rule.flops < self.task.min_flops:
            return found
        if opdef(node.name).must_divide:
            found = tuple([s for s in found if s.split >= start.split])
            enough = {start.split, max([s.split for s in found], default=1)}
            small = 0.0 if self.divides_anyhow else rule.flops / self.task.min_flops
            return tuple([s for s in found if s.split in enough or s.split > small])
        if self.is_constant(node):
            return found
        seconds = _REPEATED * self.work[node.index].whole

        def priced(strategy: Strategy) -> Strategy:
            more = 1 / strategy.split - 1 / start.split
            return strategy._replace(price=seconds * more) if more > 0.0 else strategy

        return tuple(map(priced, found))

    def _frugal(
        self, node: Node, found: tuple[Strategy, ...], start: Strategy
    ) -> tuple[Strategy, ...]:
        """Without those in which a large carried value takes more memory than the start has it.

        To gather the weights of all layers ahead of a scan undoes what they were split for.
        """
        info = self.graph.types[node.subject]
        if info.bytes < _LARGE_CARRY or self.is_constant(node):
            return found
        splits = self.specs.rank(len(info.shape)).splits
        return tuple([s for s in found if splits[s.ins[0]] >= splits[start.ins[0]]])

    def _reads_stack(self, node: Node) -> bool:
        """Whether an op takes a part of what stays the same in its loop, such as one layer."""
        if node.rule is None or node.rule.flops or not node.operands:
            return False
        graph, stack = self.graph, node.subject
        is_part = 2 * graph.bytes(node.results[0]) <= graph.bytes(stack)
        return is_part and graph.nodes[graph.producer[stack]].is_invariant

    def is_constant(self, node: Node) -> bool:
        """Whether constants and scalars alone say what a node makes."""
        return all([self.task.constant[value] for value in node.results])

    def _all(self, node: Node, now: Strategy, free: Free) -> tuple[Strategy, ...]:
        """Those in which the sub-axes that are not free stay as they are now."""
        if node.results and self.task.free[node.results[0]]:
            return ()  # made wherever it is wanted, from what every device has
        if node.kind == OP and node.rule is not None:
            return self._of_rule(node, node.rule, now, free)
        if node.kind in MANUAL_EDGES:
            return self._at_region(node, now, free)
        if node.index in self.task.pins.whole or node.kind not in _ALIKE:
            return ()
        given = self.task.pins.layouts.get(node.index)
        if given is not None and not given.has_open:
            return ()
        return self._alike(node, given, now, free)

    def places(self, node: Node, strategy: Strategy) -> list[Places]:
        """Of each operand and result, the place of every sub-axis."""
        ins, outs = self.specs.sides(self.graph, node)
        sides = zip((*ins, *outs), (*strategy.ins, *strategy.outs), strict=True)
        return [side.places[spec] for side, spec in sides]

    def _held(self, node: Node, now: Strategy, free: Free) -> Held:
        by_axis = list(zip(*self.places(node, now), strict=True))
        if free is not None:
            return tuple([None if a in free else (places,) for a, places in enumerate(by_axis)])
        return tuple([tuple({p: None, (WHOLE,) * len(p): None}) for p in by_axis])

    # Ops.

    def _of_rule(self, node: Node, rule: OpRule, now: Strategy, free: Free) -> tuple[Strategy, ...]:
        blocks = self._factor_blocks.get(node.index, ())
        passes, held, used = self._passes(node), self._held(node, now, free), self._used_at(node)
        key = (id(rule), blocks, passes, node.free, held)
        every = self._memo.get(key)
        if every is None:
            every = self._of_structure(rule, blocks, passes, used, held)
            for other in rule.others:
                others = self._joint.of(other, (), passes, used, held)
                every = tuple(dict.fromkeys((*every, *others)))
            self._memo[key] = every
        return self._computed_ones(node, every, key)

    def _passes(self, node: Node) -> tuple[int, ...]:
        """The numbers of the ways in which a node's operands may be partial, and it passes that."""
        found = self._passes_of.get(node.index)
        if found is None:
            rule, kinds = node.rule, [self._kinds[v] for v in node.operands]
            ways = enumerate(() if rule is None else rule.passes)
            found = self._passes_of[node.index] = tuple(
                [number for number, way in ways if _is_met(way.operands, kinds)]
            )
        return found

    def _of_structure(
        self,
        rule: OpRule,
        blocks: BlockCounts,
        passes: tuple[int, ...],
        used: tuple[bool, ...],
        held: Held,
    ) -> tuple[Strategy, ...]:
        """Those of an op with the same factors, unless its algorithms ask for more than those."""
        if _has_algorithms(rule):
            return self._joint.of(rule, blocks, passes, used, held)
        parts = tuple([rule.passes[i] for i in passes])
        key = (rule.factors, rule.operands, rule.results, parts, blocks, used, held)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._joint.of(rule, blocks, passes, used, held)
        return found

    def with_algorithm(self, rule: OpRule, strategy: Strategy) -> Strategy | None:
        """The strategy with what its algorithm communicates; None if none computes it."""
        if rule.op is None or not _has_algorithms(rule):
            return strategy
        found = self._compute(rule, rule.op, strategy)
        return None if found is None else strategy._replace(comm=found.comm)

    def exchanges(self, rule: OpRule | None, strategy: Strategy) -> tuple[Exchange, ...]:
        """What an op sends at first of operand 0, which another that sends the same need not."""
        if not strategy.comm or rule is None or rule.op is None:
            return ()
        found = self._compute(rule, rule.op, strategy)
        return () if found is None else found.exchanges

    def _compute(self, rule: OpRule, op: OpInfo, strategy: Strategy) -> Computed | None:
        key = id(rule), strategy
        if key not in self._computed:
            self._computed[key] = self._by_algorithm(op, strategy)
        return self._computed[key]

    def _by_algorithm(self, op: OpInfo, strategy: Strategy) -> Computed | None:
        placed = Placed(
            op,
            self._layouts(op.operand_shapes, strategy.ins),
            self._layouts(op.result_shapes, strategy.outs),
        )
        found = cheapest(self.task.cost, placed)
        if found is None:
            return None
        traffic = found.comm_bytes(placed)
        exchanges = [(each.what, traffic_seconds(self.task.cost, each)) for each in traffic]
        count = len(list(takewhile(lambda each: each.what and not each.slot, traffic)))
        return Computed(sum([seconds for _, seconds in exchanges], 0.0), tuple(exchanges[:count]))

    def _layouts(
        self, shapes: Sequence[tuple[int, ...]], specs: Sequence[int]
    ) -> tuple[Layout, ...]:
        pairs = zip(shapes, specs, strict=True)
        return tuple([self.specs.rank(len(shape)).layout(spec) for shape, spec in pairs])

    # Nodes without a rule.

    def _alike(
        self, node: Node, given: Layout | None, now: Strategy, free: Free
    ) -> tuple[Strategy, ...]:
        """One spec for all operands and results: borders, carried values, joins, barriers."""
        value = (node.results or node.operands)[0]
        shape = self.graph.types[value].shape
        is_border = node.kind in BORDERS
        kinds = 0 if is_border or given is not None else self._kinds[value]
        blocks = () if is_border else self._blocks[value]
        sides = len(node.operands), len(node.results)
        held = _on_side(self._held(node, now, free), 0)
        key = (shape, blocks, kinds, sides, is_border, given, node.free, held)
        found = self._memo.get(key)
        if found is None:
            specs = self.specs.rank(len(shape))
            places = self._places_on(shape, blocks, kinds, held)
            used = self._used_at(node)
            places = [p for p in places if _keeps_to(used, held, p)]
            if is_border:
                places = [p for p in places if self.specs.fit_a_border(p)]
            if given is not None:
                places = [p for p in places if _extends(given, specs.layout(specs.of(p)))]
            ids = [specs.of(p) for p in places]
            ids.sort(key=specs.shared.__getitem__)
            made = [Strategy((i,) * sides[0], (i,) * sides[1], 1) for i in ids]
            found = self._memo[key] = tuple(made)
        return self._computed_ones(node, found, key)

    def _places_on(
        self, shape: tuple[int, ...], blocks: BlockCounts, kinds: int, held: HeldPlaces
    ) -> list[Places]:
        sizes, joint = self.specs.sizes, self._joint
        return all_places(shape, sizes, blocks, kinds, joint.groups, held, joint.together)

    def _used_at(self, node: Node) -> tuple[bool, ...]:
        """Per sub-axis, whether the node may use it."""
        pairs = zip(self._used, self.specs.subaxes, strict=True)
        return tuple([used and node.may_use(axis.name) for used, axis in pairs])

    def _at_region(self, node: Node, now: Strategy, free: Free) -> tuple[Strategy, ...]:
        """What may cross the border of a manual region: as it asks, on open dimensions as planned.

        Only sub-axes that are free in the region are added.
        """
        given = self.task.pins.layouts.get(node.index)
        if given is None or not given.has_open or node.rule is None:
            return ()
        shape, blocks = self.graph.types[node.subject].shape, self._blocks[node.subject]
        held = _on_side(self._held(node, now, free), 0 if node.kind == MANUAL_READ else -1)
        key = (id(node.rule), blocks, held)
        found = self._memo.get(key)
        if found is None:
            specs, made = self.specs.rank(len(shape)), []
            may_move = list(zip(self.specs.subaxes, self._used_at(node), strict=True))
            for places in self._places_on(shape, blocks, 0, held):
                layout = specs.layout(specs.of(places))
                added = zip(places, may_move, strict=True)
                if _extends(given, layout) and all(
                    [may or place == place_of(given, axis) for place, (axis, may) in added]
                ):
                    inside = self.specs.of_layout(inner_layout(layout, node.free or ()))
                    ends = (specs.of(places),), (inside,)
                    made.append(Strategy(*(ends if node.kind == MANUAL_READ else ends[::-1]), 1))
            found = self._memo[key] = tuple(made)
        return self._computed_ones(node, found, key)

    def _computed_ones(
        self, node: Node, strategies: tuple[Strategy, ...], key: object
    ) -> tuple[Strategy, ...]:
        """Those that something computes, complete; where there are very many, the best.

        Those that divide the most work and hold the least. What completes one takes long, and is
        asked for those alone that may be kept. The strategies come in the order that decides among
        equals; `key` is what they depend on.
        """
        rule = node.rule if node.kind == OP else None
        is_few = len(strategies) <= self.most
        self.has_left_out |= not is_few
        if is_few and (rule is None or not _has_algorithms(rule)):
            return strategies
        found = self._memo.get((key, self.most))
        if found is None:
            ordered = strategies if is_few else sorted(strategies, key=self._worth(node))
            finish = (self.with_algorithm(rule, s) for s in ordered) if rule else iter(ordered)
            kept = list(islice((s for s in finish if s is not None), self.most))
            if not is_few:
                order = {s[:2]: number for number, s in enumerate(strategies)}
                kept.sort(key=lambda s: order[s[:2]])
            found = self._memo[key, self.most] = tuple(kept)
        return found

    def _worth(self, node: Node) -> Callable[[Strategy], tuple[float, ...]]:
        """How much work a strategy leaves undivided, and how much it holds."""
        sides = [side for both in self.specs.sides(self.graph, node) for side in both]

        def worth(strategy: Strategy) -> tuple[float, ...]:
            numbers = list(zip(sides, (*strategy.ins, *strategy.outs), strict=True))
            parts = sum([side.partial[spec] for side, spec in numbers])
            held = sum([1 / side.splits[spec] for side, spec in numbers])
            return -strategy.split, parts, held

        return worth


def _is_met(wanted: Sequence[str | None], kinds: Sequence[int]) -> bool:
    """Whether some value can hold parts of the reduction that is wanted of it."""
    return any([k is not None and have & bit(k) for k, have in zip(wanted, kinds, strict=True)])


def _has_algorithms(rule: OpRule) -> bool:
    return rule.op is not None and len(opdef(rule.op.name).algorithms) > 1


def _on_side(held: Held, side: int) -> HeldPlaces:
    """The places that sub-axes may have on one of the node's operands and results."""
    return tuple([h if h is None else tuple([places[side] for places in h]) for h in held])


def _keeps_to(used: Sequence[bool], held: HeldPlaces, places: Places) -> bool:
    each = zip(used, held, places, strict=True)
    return all([may or place == WHOLE or place in (stays or ()) for may, stays, place in each])


def _extends(given: Layout, layout: Layout) -> bool:
    """Whether a layout keeps what is written and adds axes behind it, on open dimensions alone."""
    if layout.partial != given.partial:
        return False
    for written, dim in zip(given.dims, layout.dims, strict=True):
        if dim.digits == written.digits:
            continue
        count = len(written.digits)
        added = dim.digits[count:]
        if dim.digits[:count] != written.digits or not all(
            [written.is_open if isinstance(digit, int) else written.takes(digit) for digit in added]
        ):
            return False
    return True
