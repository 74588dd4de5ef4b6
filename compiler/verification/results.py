"""The results of a program as it runs, without looking inside, against one device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.extend
import numpy as np

from dtensor.compiler.calls import is_dtensor
from dtensor.compiler.stages import Lowered, Traced
from dtensor.compiler.verification.accuracy import epsilon
from dtensor.compiler.verification.blocks import (
    ON_SHARDS,
    Block,
    Operation,
    Program,
    Reader,
    Value,
)
from dtensor.compiler.verification.check import Checker
from dtensor.compiler.verification.compare import difference
from dtensor.compiler.verification.report import Difference
from dtensor.compiler.verification.run import Runner
from dtensor.compiler.verification.shards import Array, Shards, cut, poisoned, wide
from dtensor.passes.ops.accuracy import Accuracy
from dtensor.runtime.keys import data_of
from dtensor.runtime.padding import even_layout
from dtensor.runtime.placement import named_sharding

_BEFORE = "every operation of the plan is right: a pass before it changes the program"
_AFTER = "every operation is right where values are looked at: a pass after dtensor-expand is not"


_REGION = "every other operation is right: a shard_map, or a pass before it, is not"

_TRIES = 3  # arguments next to those given
_FARTHEST = 2.0**-7  # by which each may differ, relative to it

Reference = Callable[[], Sequence[Any]]


def compare_results(
    lowered: Lowered,
    reader: Reader,
    checker: Checker,
    main: Block,
    arguments: Sequence[Array],
    tapped: Sequence[Array],
    reference: Reference | None,
) -> None:
    """Compare what every operation's being right does not say: the passes around the plan.

    Passes before the plan may have changed the program, and those after it may act otherwise where
    every value inside is looked at. What works on shards has not been compared at all. The bound is
    that of all operations one after another.

    Args:
        lowered: the program.
        reader: its plan.
        checker: gets what differs.
        main: the block of its `main`.
        arguments: of the program.
        tapped: its results where every value is looked at.
        reference: its results as jax computes them, for programs that one device cannot run; None
            where jax does not know the program.
    """
    reasons = {operation.skipped for operation in main.operations} - {""}
    if reasons - {ON_SHARDS} or (reasons and reference is None):
        checker.not_compared["the results as a whole, for the same reason"] = None
        return
    names = [info.name for info in lowered._source.results]
    given = [
        _true(value, array.shape)
        for value, array in zip(main.tapped.arguments, arguments, strict=True)
    ]
    # Numbers of their own: one value may be several results.
    infos = [
        replace(_true(value, info.shape), number=-1 - k)
        for k, (value, info) in enumerate(
            zip(reader.values(main.yields), lowered._source.results, strict=True)
        )
    ]
    near: _Near | None = None
    if reasons:
        assert reference is not None
        expected = dict(zip([info.number for info in infos], _arrays(reference()), strict=True))
    else:
        whole = Program(reader.original(), tuple(given), tuple(infos))
        numbers = [value.number for value in given]
        given_values = dict(zip(numbers, arguments, strict=True))
        expected = checker.runner.on_one(whole, given_values, as_written=False)
        near = _Near(checker.runner, whole, given_values)
    found = _run(lowered, arguments)
    before = _REGION if reasons else _BEFORE
    for k, info in enumerate(infos):
        title = Operation(names[k], "", (), (), _of_all(main, np.dtype(info.dtype)))
        inside = tuple(map(slice, info.shape))
        shards = cut(found[k][inside], info.layout)
        wrong = difference(title, info, shards, expected[info.number], 1, None, (before,))
        if wrong is not None and not (near and near.explains(wrong, title, info, shards, expected)):
            after = difference(title, info, shards, tapped[k][inside], 1, None, (_AFTER,))
            checker.differences.append(after or wrong)


class _Near:
    """The results on one device of arguments next to those given.

    Where terms cancel, or bits become integers, results differ by more than their own roundings. A
    program whose roundings are like other arguments gives what it gives of those.
    """

    def __init__(self, runner: Runner, program: Program, given: dict[int, Array]) -> None:
        self._runner, self._program, self._given = runner, program, given
        self._found: dict[float, list[dict[int, Array]]] = {}

    def explains(
        self,
        wrong: Difference,
        title: Operation,
        info: Value,
        shards: Shards,
        expected: dict[int, Array],
    ) -> bool:
        """Whether arguments apart by the roundings of all operations give such a difference too.

        It may be four times as large, of four times as many elements, as that of one of them.
        """
        want, most, share = expected[info.number], 0.0, 0.0
        for found in self._results(title.accuracy.roundings):
            result = found[info.number]
            differs = difference(title, info, cut(result, info.layout), want, 1, None, ())
            if differs is not None:
                share = max(share, differs.elements[0] / differs.elements[1])
                most = max(most, _apart(result, want))
        if wrong.elements[0] > 4 * share * wrong.elements[1]:
            return False
        return difference(title, info, shards, want, 1, None, (), noise=4 * most) is None

    def _results(self, roundings: float) -> list[dict[int, Array]]:
        if roundings not in self._found:
            self._found[roundings] = [
                self._runner.on_one(self._program, self._moved(roundings, seed), as_written=False)
                for seed in range(_TRIES)
            ]
        return self._found[roundings]

    def _moved(self, roundings: float, seed: int) -> dict[int, Array]:
        """The arguments, each float by as many roundings, up or down."""
        rng = np.random.default_rng(seed)
        moved = dict(self._given)
        for number, array in self._given.items():
            step = min(roundings * epsilon(array.dtype), _FARTHEST)
            if step:
                sides = rng.choice([1 - step, 1 + step], array.shape)
                moved[number] = (wide(array) * sides).astype(array.dtype)
        return moved


def _apart(result: Array, want: Array) -> float:
    """The largest difference of two elements that are finite."""
    sides = [wide(v) if v.dtype.kind not in "biu" else v.astype(float) for v in (result, want)]
    with np.errstate(all="ignore"):
        apart = np.abs(sides[0] - sides[1])
    return float(np.max(apart, where=np.isfinite(apart), initial=0.0))


def as_jax_runs(traced: Traced, leaves: Sequence[Any]) -> Reference:
    """The results of a traced function under jax.jit, to be called where no mesh is set."""
    body = jax.jit(jax.extend.core.jaxpr_as_fun(traced.jaxpr))

    def results() -> Sequence[Any]:
        found: Sequence[Any] = body(*[x.to_jax() if is_dtensor(x) else x for x in leaves])
        return found

    return results


def _arrays(values: Sequence[Any]) -> list[Array]:
    return [np.asarray(data_of(value)) for value in values]


def _true(value: Value, shape: tuple[int, ...]) -> Value:
    """An argument or a result of its true shape, whole where its layout does not divide it."""
    return replace(value, shape=shape, layout=even_layout(value.layout, shape))


def _run(lowered: Lowered, arguments: Sequence[Array]) -> list[Array]:
    """The results of the program as it is."""
    executable = lowered.compile().executable
    placed = [
        jax.device_put(poisoned(value, info.padded_shape), named_sharding(info.layout))
        for value, info in zip(arguments, executable.program.args, strict=True)
    ]
    return [np.asarray(result) for result in executable.run_here(*placed)]


def _of_all(block: Block, dtype: np.dtype[Any]) -> Accuracy:
    """The roundings of all operations one after another, each in its own element type.

    Args:
        block: the operations.
        dtype: the element type whose roundings are counted.
    """
    own = epsilon(dtype)
    types = {value.number: np.dtype(value.dtype) for value in block.tapped.results}
    total = 1.0
    for operation in block.operations:
        coarsest = max((epsilon(types[n]) for n in operation.results), default=0.0)
        accuracy = operation.accuracy
        total += (accuracy.roundings + accuracy.length) * max(coarsest / own if own else 1.0, 1.0)
    return Accuracy(total, of_tensor=True)
