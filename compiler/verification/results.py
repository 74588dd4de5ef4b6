"""The results of a program as it runs, without looking inside, against one device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.extend
import numpy as np

from dtensor.compiler.calls import is_dtensor
from dtensor.compiler.stages import Lowered
from dtensor.compiler.traced import Traced
from dtensor.compiler.verification.accuracy import epsilon
from dtensor.compiler.verification.blocks import ON_SHARDS, Block, Operation, Program, Reader, Value
from dtensor.compiler.verification.check import Checker
from dtensor.compiler.verification.compare import difference
from dtensor.compiler.verification.near import NEAR, TRIES, apart, moved
from dtensor.compiler.verification.parts import Parts
from dtensor.compiler.verification.report import Difference
from dtensor.compiler.verification.run import Runner
from dtensor.compiler.verification.shards import Array, Shards, cut, poisoned
from dtensor.passes.ops.accuracy import Accuracy
from dtensor.runtime.keys import data_of
from dtensor.runtime.padding import even_layout
from dtensor.runtime.placement import named_sharding

# What a difference is "in".
_BEFORE = "the results: each operation of the plan is right, a pass before it changes the program"
_AFTER = (
    "the results: they are right where all values are looked at; a pass after dtensor-expand is not"
)


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
    every value inside is looked at. The bound is that of all operations one after another.

    Args:
        lowered: the program.
        reader: its plan.
        checker: gets what differs.
        main: the block of its `main`.
        arguments: of the program.
        tapped: its results where every value is looked at.
        reference: its results as jax computes them, for programs that have a shard_map; None where
            jax does not know the program.
    """
    reasons = main.reasons()
    on_shards = ON_SHARDS in reasons
    if reasons - {ON_SHARDS}:
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
    whole = reader.original(given, infos, on_shards)
    numbers = [value.number for value in given]
    near = _Near(checker.runner, whole, dict(zip(numbers, arguments, strict=True)))
    if on_shards and reference is not None:
        expected = dict(zip([info.number for info in infos], _arrays(reference()), strict=True))
    else:
        expected = near.results()
    found = _run(lowered, arguments)
    for k, info in enumerate(infos):
        title = Operation(names[k], "", (), (), _of_all(main, np.dtype(info.dtype)))
        inside = tuple(map(slice, info.shape))
        shards = cut(found[k][inside], info.layout)
        wrong = difference(title, info, shards, expected[info.number], 1, None, (_BEFORE,))
        if wrong is not None and not near.explains(wrong, title, info, shards, expected):
            after = difference(title, info, shards, tapped[k][inside], 1, None, (_AFTER,))
            checker.differences.append(after or wrong)


class _Near:
    """The results, where nothing is divided, of arguments and of others next to them.

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

        It may be `NEAR` times as large, of so many times more elements, as that of one of them.
        """
        want, most, share = expected[info.number], 0.0, 0.0
        for found in self._results(title.accuracy.roundings):
            result = found[info.number]
            differs = difference(title, info, cut(result, info.layout), want, 1, None, ())
            if differs is not None:
                share = max(share, differs.elements[0] / differs.elements[1])
                most = max(most, apart(result, want))
        if wrong.elements[0] > NEAR * share * wrong.elements[1]:
            return False
        return difference(title, info, shards, want, 1, None, (), noise=NEAR * most) is None

    def results(self, given: dict[int, Array] | None = None) -> dict[int, Array]:
        """The results of the arguments, or of others."""
        values = {n: [array] for n, array in (given or self._given).items()}
        parts = Parts(self._runner.mesh)
        found = self._runner.undivided(self._program, values, parts, as_written=False)
        return {number: value[0] for number, value in found.items()}

    def _results(self, roundings: float) -> list[dict[int, Array]]:
        if roundings not in self._found:
            self._found[roundings] = [
                self.results(moved(self._given, roundings, seed)) for seed in range(TRIES)
            ]
        return self._found[roundings]


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
    return [np.asarray(result) for result in executable.runner()(*placed)]


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
