"""Small random programs as text: a few ops on two arguments, laid out at random over a mesh."""

import random

SHAPES = {"a": (8, 16), "b": (16, 8)}


def small_program(seed: int, axes: tuple[str, ...]) -> str:
    """`@main` of up to five ops, its arguments and its result in random layouts."""
    rng = random.Random(seed)
    values = [("%a", (8, 16)), ("%b", (16, 8))]
    lines = []
    for number in range(rng.randint(2, 5)):
        name, shape = rng.choice(values[-3:])
        made = f"%v{number}"
        kind = rng.choice(["tanh", "transpose", "dot", "add", "reverse"])
        line, result = _op(kind, made, name, shape, values, rng)
        lines.append(line)
        values.append((made, result))
    name, shape = values[-1]
    arguments = ", ".join(
        f"%{n}: {_type(s)} {{dtensor.layout = {_layout(rng, axes)}}}" for n, s in SHAPES.items()
    )
    returned = f"({_type(shape)} {{dtensor.layout = {_layout(rng, axes)}}})"
    body = "\n  ".join([*lines, f"return {name} : {_type(shape)}"])
    return f"func.func @main({arguments}) -> {returned} {{\n  {body}\n}}"


def _op(
    kind: str,
    made: str,
    name: str,
    shape: tuple[int, int],
    values: list[tuple[str, tuple[int, int]]],
    rng: random.Random,
) -> tuple[str, tuple[int, int]]:
    rows, columns = shape
    given = _type(shape)
    if kind == "transpose":
        after = (columns, rows)
        return (
            f"{made} = stablehlo.transpose {name}, dims = [1, 0] : ({given}) -> {_type(after)}",
            after,
        )
    if kind == "reverse":
        return f"{made} = stablehlo.reverse {name}, dims = [{rng.randint(0, 1)}] : {given}", shape
    if kind == "dot":
        other, theirs = rng.choice([v for v in values if v[1][0] == columns] or [values[0]])
        if theirs[0] == columns:
            after = (rows, theirs[1])
            types = f"({given}, {_type(theirs)}) -> {_type(after)}"
            line = f"{made} = stablehlo.dot_general {name}, {other}, contracting_dims = [1] x [0]"
            return f"{line} : {types}", after
    if kind == "add":
        other, _ = rng.choice([v for v in values if v[1] == shape])
        return f"{made} = stablehlo.add {name}, {other} : {given}", shape
    return f"{made} = stablehlo.tanh {name} : {given}", shape


def _type(shape: tuple[int, int]) -> str:
    return f"tensor<{shape[0]}x{shape[1]}xf32>"


def _layout(rng: random.Random, axes: tuple[str, ...]) -> str:
    dims: list[list[str]] = [[], []]
    for axis in axes:
        place = rng.randint(0, 2)
        if place < 2:
            dims[place].append(f'"{axis}"')
    return f"#dtensor.layout<@mesh, [{', '.join('{' + ', '.join(d) + '}' for d in dims)}]>"
