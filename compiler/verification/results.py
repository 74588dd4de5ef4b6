"""The results of a program as it runs, without looking inside, against one device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import jax
import numpy as np

from dtensor.compiler.stages import Lowered
from dtensor.compiler.verification.blocks import Block, Operation, Program, Reader, Value
from dtensor.compiler.verification.check import Checker
from dtensor.compiler.verification.compare import difference
from dtensor.compiler.verification.shards import Array, cut, poisoned
from dtensor.passes.ops.accuracy import Accuracy
from dtensor.runtime.padding import even_layout
from dtensor.runtime.placement import named_sharding

_BEFORE = "every operation of the plan is right: a pass before it changes the program"
_AFTER = "every operation is right where values are looked at: a pass after dtensor-expand is not"


def compare_results(
    lowered: Lowered,
    reader: Reader,
    checker: Checker,
    main: Block,
    arguments: Sequence[Array],
    tapped: Sequence[Array],
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
    """
    if any(operation.skipped for operation in main.operations):
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
    whole = Program(reader.original(), tuple(given), tuple(infos))
    numbers = [value.number for value in given]
    expected = checker.runner.on_one(whole, dict(zip(numbers, arguments, strict=True)))
    found = _run(lowered, arguments)
    accuracy = _of_all(main)
    for k, info in enumerate(infos):
        title = Operation(names[k], "", (), (), accuracy)
        inside = tuple(map(slice, info.shape))
        shards = cut(found[k][inside], info.layout)
        wrong = difference(title, info, shards, expected[info.number], 1, None, (_BEFORE,))
        if wrong is not None:
            after = difference(title, info, shards, tapped[k][inside], 1, None, (_AFTER,))
            checker.differences.append(after or wrong)


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


def _of_all(block: Block) -> Accuracy:
    found = [operation.accuracy for operation in block.operations]
    return Accuracy(sum(a.roundings + a.length for a in found) + 1, of_tensor=True)
