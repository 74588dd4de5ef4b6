"""Which dimensions become longer together, and how long.

Dimensions that one factor of an operation walks along have elements at the same indices; a longer
one makes the others longer in proportion. They, and those tied by loops, branches and constraints,
form a class. An operation may tie dimensions of other sizes, as a window does that takes one
element of two: the results of a padded array are an array with padding in it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from dtensor.dialect.diagnostics import error
from dtensor.dialect.dim import Dim
from dtensor.passes.creation import Shape
from dtensor.passes.graph import CARRY, CONSTRAINT, JOIN, OP, THROUGH, Graph, Node
from dtensor.passes.ops.padding import Fill, TiedDims, goes_in_steps, in_proportion
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import FactorKind, OpRule
from dtensor.passes.ops.table import opdef
from dtensor.passes.propagation.task import Pins
from dtensor.passes.uneven.classes import Classes, DimClasses, ValueDim
from dtensor.passes.uneven.ties import (
    Carriers,
    Tied,
    find_moves,
    find_ties,
    is_mixed,
    major_dims,
    padded_ops,
    place_at,
    places_of,
    regroups,
    walked,
)

Site = tuple[int, int, int]  # a node, an operand (or ~result) of it, and a dimension of that
Beside = Callable[[ValueDim], Iterator[ValueDim]]
TIES = (CONSTRAINT, CARRY, JOIN, THROUGH)  # operands and results are one value


@dataclass
class Lengths:
    """How long the dimensions of each value become.

    Attributes:
        shapes: per value the shape that its users may see, in elements.
        words: per value, and each of its dimensions that become longer, how all layouts that
            split it do so; None where they differ, and where it stays.
        fills: per node, operand (~result) and dimension, what must stand beyond its end; one that
            is missing must not be longer.
        apart: per node, operand (~result) and dimension, how long it is there, if not as elsewhere.
        divisible: classes that could be longer still, so that more devices divide them, and into
            how many parts: by the first dimension of each that a layout given splits.
        possible: the class of the most bytes of those that no layout splits, likewise by `~` its
            first dimension.
        is_beside: whether some grow in proportion to one that divides and stays.
        is_refitted: whether some would grow together if arguments or results may be of another
            length inside of the program than at its border.
    """

    shapes: list[Shape]
    words: list[tuple[Dim | None, ...]] = field(default_factory=list)
    fills: dict[Site, Fill | Reduction] = field(default_factory=dict)
    apart: dict[Site, int] = field(default_factory=dict)
    divisible: dict[float, int] = field(default_factory=dict)
    possible: dict[float, int] = field(default_factory=dict)
    is_beside: bool = False
    is_refitted: bool = False


@dataclass(frozen=True)
class Freedom:
    """What may become longer than it must, or stay shorter.

    Attributes:
        parts: some of what is `divisible` without it: these classes are made that long.
        may_stay: whether a dimension that divides may stay as it is where an operation ties it, in
            proportion, to one that does not, which grows alone then. Else they grow together, or
            the one is not split.
        may_refit: whether arguments and results may have another length inside, for dimensions of
            others to grow with them: they are moved to it when the program begins and ends.
    """

    parts: Mapping[float, int] = field(default_factory=dict)
    may_stay: bool = True
    may_refit: bool = False


def lengths_of(graph: Graph, pins: Pins, freedom: Freedom | None = None) -> Lengths | None:
    """How long dimensions become so that all layouts divide them; None if all do already.

    Args:
        graph: the program.
        pins: the layouts given.
        freedom: what may be longer or shorter; by default what the least lengths are.
    """
    freedom = freedom or Freedom()
    may_stay = freedom.may_stay
    is_uneven = any(_uneven_dims(graph, pins, graph.nodes[index]) for index in pins.layouts)
    splits = {dim.split for layout in pins.layouts.values() for dim in layout.dims} - {1}
    ties, alike, even = find_ties(graph, splits, is_uneven, may_stay)
    moves = find_moves(graph, splits)
    if not is_uneven and not _reach_split(graph, pins, [*ties, *alike], [*even, *moves]):
        return None
    lengths = Lengths([info.shape for info in graph.types])
    places, regrouped = _joined(graph, lengths, splits if may_stay else set())
    for node, tie in alike:
        _join_beside(node, tie, places)
        for along in tie:
            lengths.fills[node.index, along.slot, along.dim] = along.fill
    classes = Classes(graph, pins, places, freedom.parts, freedom.may_refit)
    classes.wish(regrouped)
    alike = [*alike, *even, *_there_and_back(moves, places, classes)]
    apart = _tie(classes, ties, alike, lengths, may_stay)
    _let_read(graph, lengths)
    growing = classes.growing()
    if not growing:
        return None
    lengths.divisible = classes.divisible(_products(pins))
    possible = classes.possible(_products(pins))
    bytes_of = dict.fromkeys(possible, 0.0)
    for value, info in enumerate(graph.types):
        sizes, words = list(info.shape), list[Dim | None]()
        for d in range(len(sizes)):
            root, scale = places.find(places.number((value, d)))
            if root in bytes_of:
                bytes_of[root] += graph.bytes(value) * graph.weights[value]
            length, word = growing.get(root, (None, None))
            words.append(word)
            if length is not None:
                sizes[d] = int(length * scale)
        lengths.shapes[value] = tuple(sizes)
        lengths.words.append(tuple(words))
    lengths.possible = possible[max(bytes_of, key=bytes_of.__getitem__)] if possible else {}
    lengths.is_refitted = classes.is_refitted
    lengths.apart = _lengths_apart(apart, lengths)
    lengths.is_beside = may_stay and any(_is_beside(lengths, graph, *each) for each in ties)
    return lengths


def _products(pins: Pins) -> list[int]:
    """How many devices some mesh axes have together."""
    mesh = next(iter(pins.layouts.values())).mesh
    found = {1}
    for _, size in mesh.axes:
        found |= {size * other for other in found}
    return sorted(found)


def _let_read(graph: Graph, lengths: Lengths) -> None:
    """Let what reads places before the true end read a longer dimension as it is."""
    for node, padding in padded_ops(graph):
        for along in padding.reads(node.info) if padding.reads is not None else ():
            lengths.fills.setdefault((node.index, along.slot, along.dim), along.fill)


def _reach_split(graph: Graph, pins: Pins, ties: list[Tied], even: list[Tied]) -> bool:
    """Whether a layout splits a dimension that ties and factors lead to from those of `ties`.

    It is not for most programs, and what ties lead to is little of them; `_joined` reads all.
    """
    if not ties:
        return False
    split = {
        (graph.nodes[index].subject, d)
        for index, layout in pins.layouts.items()
        for d, dim in enumerate(layout.dims)
        if dim.split > 1
    }
    tied = defaultdict[ValueDim, list[ValueDim]](list)
    for node, tie in (*ties, *even):
        places = places_of(node, tie)
        for place in places:
            tied[place] += places
    left = [place for node, tie in ties for place in places_of(node, tie)]
    seen = set(left)
    beside = neighbours(graph)
    while left:
        place = left.pop()
        if place in split:
            return True
        for near in (*tied.get(place, ()), *beside(place)):
            if near not in seen:
                seen.add(near)
                left.append(near)
    return False


def neighbours(graph: Graph) -> Beside:
    """Gives the dimensions that the nodes around a value walk together with one of its own.

    What is given may be called once operations were erased: it looks at none.
    """
    return _beside(graph, lambda node, rule: [carriers for _, carriers in walked(node, rule)])


def split_alike(graph: Graph) -> Beside:
    """Gives the dimensions that operations around a value could split as one of its own.

    Unlike those that walk together they may have other sizes: windows walk in steps.
    """

    def split(node: Node, rule: OpRule) -> list[Carriers]:
        return [] if regroups(node) else [major_dims(rule, f) for f in range(len(rule.factors))]

    return _beside(graph, split)


def in_steps(graph: Graph) -> Beside:
    """Gives the dimensions that operations tie to one of a value, and take or give in equal steps.

    They grow together where they do not divide: every second element of 500 is one of 504.
    """

    def stepped(node: Node, rule: OpRule) -> list[Carriers]:
        padding, info = opdef(node.name).padding, rule.info_of(node.operation)
        ties = () if padding is None or padding.ties is None else padding.ties(info)
        return [[(a.slot, a.dim) for a in tie] for tie in ties if goes_in_steps(info, tie)]

    return _beside(graph, stepped)


def _beside(graph: Graph, together: Callable[[Node, OpRule], Iterable[Carriers]]) -> Beside:
    """Gives the dimensions that go with one of a value, as the rules of operations have it."""
    groups: dict[int, dict[tuple[int, int], Carriers]] = {}
    for node in graph.nodes:
        if node.kind == OP and node.rule is not None and id(node.rule) not in groups:
            groups[id(node.rule)] = {at: each for each in together(node, node.rule) for at in each}

    def beside(place: ValueDim) -> Iterator[ValueDim]:
        value, d = place
        maker = graph.producer[value], ~graph.producer_slot[value]
        for index, slot in (*graph.uses[value], maker):
            node = graph.nodes[index]
            if node.kind in TIES:
                yield from [(other, d) for other in (*node.operands, *node.results)]
            elif node.kind == OP and node.rule is not None:
                near = groups[id(node.rule)].get((slot, d), ())
                yield from [place_at(node, *carrier) for carrier in near]

    return beside


def _joined(
    graph: Graph, lengths: Lengths, splits: set[int]
) -> tuple[DimClasses, dict[ValueDim, None]]:
    """The classes that values and factors make; `lengths` is told what factors need.

    Returns:
        The classes, and the dimensions that were joined with those of other sizes: what a reshape
        takes apart or puts together.
    """
    places, regrouped = DimClasses(graph), dict[ValueDim, None]()
    for node in graph.nodes:
        if node.kind in TIES:
            rank = len(graph.types[(node.operands or node.results)[0]].shape)
            for d in range(rank):
                places.join([(value, d) for value in (*node.operands, *node.results)])
    for node in graph.nodes:
        if node.kind == OP and node.rule is not None:
            for found in _join_factors(node, node.rule, places, lengths, splits):
                if len({graph.types[value].shape[d] for value, d in found}) > 1:
                    regrouped |= dict.fromkeys(found)
    return places, regrouped


def is_ordered(graph: Graph, value: int, dim: int) -> bool:
    """Whether an operation orders or transforms a dimension, and others pass it on to a value."""
    waiting, seen = [(value, dim)], set[ValueDim]()
    while waiting:
        place = waiting.pop()
        node = graph.nodes[graph.producer[place[0]]]
        if place in seen or node.kind != OP or node.rule is None:
            continue
        seen.add(place)
        m = node.rule.results[graph.producer_slot[place[0]]][place[1]]
        if m is None:
            continue
        if node.rule.factors[m.factor].kind in (FactorKind.ORDER, FactorKind.TRANSFORM):
            return True
        carriers = node.rule.dims_of_factor[m.factor]
        waiting += [place_at(node, k, d) for k, d in carriers if k >= 0]
    return False


def check_even(graph: Graph, pins: Pins) -> None:
    """Refuse layouts that do not divide, where nothing has been padded.

    Raises:
        LocatedError: one does not.
    """
    for index, layout in pins.layouts.items():
        node = graph.nodes[index]
        if _uneven_dims(graph, pins, node):
            problem = layout.problem(graph.types[node.subject].shape)
            error(
                node.operation,
                f"{node.kind} has the layout {layout.short()}: {problem}; or run "
                "dtensor-pad-uneven before",
            )


def _uneven_dims(graph: Graph, pins: Pins, node: Node) -> list[int]:
    """The dimensions of a node's value that its layout does not divide."""
    shape = graph.types[node.subject].shape
    dims = pins.layouts[node.index].dims
    return [d for d, (size, dim) in enumerate(zip(shape, dims, strict=False)) if size % dim.split]


def _join_factors(
    node: Node, rule: OpRule, places: DimClasses, lengths: Lengths, splits: set[int]
) -> Iterator[list[ValueDim]]:
    """Join what each factor walks along; what was joined."""
    for fill, carriers in walked(node, rule):
        if is_mixed(node, carriers, splits):
            continue  # these are tied: what divides may stay as it is
        found = [place_at(node, *carrier) for carrier in carriers]
        if places.join(found):
            for slot, d in carriers:
                lengths.fills[node.index, slot, d] = fill
            yield found


def _join_beside(node: Node, tie: TiedDims, places: DimClasses) -> None:
    """The operands of an operation of several results stay of one length; and so do these."""
    if len(node.results) > 1:
        for is_result in (False, True):
            places.join([place_at(node, a.slot, a.dim) for a in tie if (a.slot < 0) is is_result])


def _there_and_back(moves: list[Tied], places: DimClasses, classes: Classes) -> list[Tied]:
    """Those in which axes go to the only other dimension that takes them, or come back from it.

    A layout splits the first one, or the other must be whole in its turn: both are split alike.
    """
    wholes = {places.root(places_of(node, tie)[0]) for node, tie in moves}
    found = []
    for node, tie in moves:
        whole, *taking = places_of(node, tie)
        if len(taking) == 1 and (places.root(taking[0]) in wholes or classes.is_split(whole)):
            found.append((node, tie))
    return found


def _tie(
    classes: Classes, ties: list[Tied], alike: list[Tied], lengths: Lengths, may_stay: bool
) -> list[Tied]:
    """Tie what belongs to a class that a layout splits; each tie may make others so.

    What can be split alike is tied only if that makes it divide.

    Returns:
        What grows together at an operation alone, for some of it divides elsewhere as it is.
    """
    near, apart = {(node.index, tie) for node, tie in alike}, list[Tied]()

    def fill(node: Node, tie: TiedDims) -> None:
        for along in tie:
            lengths.fills[node.index, along.slot, along.dim] = along.fill

    while True:
        left = []
        for node, tie in ties:
            scales = [along.scale for along in tie]
            is_near = (node.index, tie) in near
            some_stay = may_stay and (is_near or in_proportion(node.info, tie))
            if classes.tie(places_of(node, tie), scales, is_near, some_stay, tie[0].together):
                fill(node, tie)
            else:
                left.append((node, tie))
        if len(left) == len(ties):  # what can grow together does
            scaled = [(places_of(node, tie), [along.times for along in tie]) for node, tie in alike]
            if not any([classes.split_alike(*each) for each in scaled]):
                found = [each for each in left if may_stay and _is_apart(classes, *each, near)]
                if not found:
                    return apart
                for each in found:
                    fill(*each)
                apart += found
                left = [each for each in left if each not in found]
        ties = left


def _is_apart(
    classes: Classes, node: Node, tie: TiedDims, near: Container[tuple[int, TiedDims]]
) -> bool:
    if (node.index, tie) in near or not in_proportion(node.info, tie):
        return False
    return classes.split_apart(places_of(node, tie), [along.scale for along in tie])


def _lengths_apart(apart: list[Tied], lengths: Lengths) -> dict[Site, int]:
    """How long dimensions are where an operation ties them to what grows, and they do not."""
    found: dict[Site, int] = {}
    for node, tie in apart:
        sizes = [lengths.shapes[value][d] for value, d in places_of(node, tie)]
        unit = max(-(-size // along.scale) for size, along in zip(sizes, tie, strict=True))
        for size, along in zip(sizes, tie, strict=True):
            if size != unit * along.scale:
                found[node.index, along.slot, along.dim] = unit * along.scale
    return found


def _is_beside(lengths: Lengths, graph: Graph, node: Node, tie: TiedDims) -> bool:
    """Whether one of what is tied in proportion stays, and one grows."""
    if not in_proportion(node.info, tie):
        return False
    pairs = [(graph.types[v].shape[d], lengths.shapes[v][d]) for v, d in places_of(node, tie)]
    return any(n == m for n, m in pairs) and any(n < m for n, m in pairs)
