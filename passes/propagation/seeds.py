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
    parent: dict[Point, Point] = {}

    def find(point: Point) -> Point:
        root = point
        while parent.setdefault(root, root) != root:
            root = parent[root]
        while parent[point] != root:
            parent[point], point = root, parent[point]
        return root

    for node in graph.nodes:
        values = node.operands + node.results
        for label in problem.labels[node.index]:
            points = [
                (v, p) for v, p in zip(values, label.ins + label.outs, strict=True) if p > WHOLE
            ]
            for point in points[1:]:
                parent[find(point)] = find(points[0])
    groups: dict[Point, list[Point]] = {}
    for node in graph.nodes:
        pinned = problem.fixed[node.index]
        if pinned is None:
            continue
        places = pinned.ins + pinned.outs
        for value, place in zip(node.operands + node.results, places, strict=True):
            if place > WHOLE:
                points = groups.setdefault(find((value, place)), [])
                if (value, place) not in points:
                    points.append((value, place))
    classes = [
        SeedClass(points, sum(graph.bytes(v) for v, _ in points), set())
        for points in groups.values()
    ]
    order = sorted(range(len(classes)), key=lambda i: -classes[i].bytes)
    number = {root: order.index(i) for i, root in enumerate(groups)}
    ordered = [classes[i] for i in order]
    for node in graph.nodes:
        if len(problem.labels[node.index]) < 3:  # idle and one more: nobody competes
            continue
        here = set()
        values = node.operands + node.results
        for label in problem.labels[node.index]:
            for value, place in zip(values, label.ins + label.outs, strict=True):
                if place > WHOLE:
                    here.add(number.get(find((value, place)), -1))
                    break
        here.discard(-1)
        for one in here:
            ordered[one].rivals |= here - {one}
    return ordered


def seed_orders(classes: list[SeedClass], limit: int) -> list[tuple[str, list[list[Point]]]]:
    """Step 3's candidates: orders in which the classes spread, each with its name."""
    rivals = [i for i, c in enumerate(classes) if c.rivals]
    everything = [point for c in classes for point in c.points]
    candidates = [("all together", [everything])]
    for first in rivals[: limit - 1]:
        others = [c.points for i, c in enumerate(classes) if i != first]
        candidates.append((f"class {first} first", [classes[first].points, *others]))
    return candidates
