"""Step 2: classes of seeds, and which of them compete."""

from __future__ import annotations

from dataclasses import dataclass

from dtensor.passes.propagation.places import WHOLE
from dtensor.passes.propagation.problem import Problem

Point = tuple[int, int]  # a value and the place of the axis on it


@dataclass
class SeedClass:
    """Pinned values that are one dimension of the program, seen from different arrays.

    Attributes:
        points: the pinned `(value, place)` pairs.
        bytes: their total size.
        rivals: numbers of the classes that want the same axis at some node.
    """

    points: list[Point]
    bytes: float
    rivals: set[int]


def seed_classes(problem: Problem) -> list[SeedClass]:
    """Classes of the pinned splits, the largest first; ties in program order."""
    graph = problem.graph
    parent = _joined(problem)
    groups: dict[Point, list[Point]] = {}
    for node, pinned in zip(graph.nodes, problem.fixed, strict=True):
        if pinned is None or pinned.is_idle or node.index in problem.asleep:
            continue
        for value, place in zip(node.operands + node.results, pinned.places, strict=True):
            if place > WHOLE:
                points = groups.setdefault(_find(parent, (value, place)), [])
                if (value, place) not in points:
                    points.append((value, place))
    roots = list(groups)
    classes = [SeedClass(p, sum(graph.bytes(v) for v, _ in p), set()) for p in groups.values()]
    order = sorted(range(len(classes)), key=lambda i: -classes[i].bytes)
    ordered = [classes[i] for i in order]
    if len(ordered) > 1:
        _find_rivals(problem, parent, {roots[i]: rank for rank, i in enumerate(order)}, ordered)
    return ordered


def _find(parent: dict[Point, Point], point: Point) -> Point:
    root = point
    while (above := parent.get(root, root)) != root:
        root = above
    while (above := parent.get(point, point)) != root:
        parent[point] = root
        point = above
    return root


def _joined(problem: Problem) -> dict[Point, Point]:
    """Union-find over the splits that some label makes go together."""
    parent: dict[Point, Point] = {}
    for node, labels in zip(problem.graph.nodes, problem.labels, strict=True):
        values = node.operands + node.results
        for label in labels:
            if label.factor < 0 and not label.divides:
                continue
            points = zip(values, label.places, strict=True)
            split = [point for point in points if point[1] > WHOLE]
            if len(split) < 2:
                continue
            first = _find(parent, split[0])
            for point in split[1:]:
                root = _find(parent, point)
                if root != first:
                    parent[root] = first
    return parent


def _find_rivals(
    problem: Problem,
    parent: dict[Point, Point],
    number: dict[Point, int],
    classes: list[SeedClass],
) -> None:
    for node, labels in zip(problem.graph.nodes, problem.labels, strict=True):
        if len(labels) < 2:
            continue
        here = set()
        values = node.operands + node.results
        for label in labels:
            for value, place in zip(values, label.places, strict=True):
                if place > WHOLE:
                    here.add(number.get(_find(parent, (value, place)), -1))
                    break
        here.discard(-1)
        for one in here:
            classes[one].rivals |= here - {one}


def seed_orders(classes: list[SeedClass], limit: int) -> list[tuple[str, list[list[Point]]]]:
    """Step 3's candidates: orders in which the classes spread, each with its name."""
    rivals = [i for i, c in enumerate(classes) if c.rivals]
    everything = [point for c in classes for point in c.points]
    candidates = [("all together", [everything])]
    for first in rivals[: limit - 1]:
        others = [c.points for i, c in enumerate(classes) if i != first]
        candidates.append((f"group {first} first", [classes[first].points, *others]))
    return candidates
