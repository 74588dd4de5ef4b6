"""Singular values and vectors of matrices whose long dimension is split: those of R of a QR.

LAPACK factorises a matrix of at least twice as many rows as columns itself before it looks at R, so
that R says all but which rows there are: signs too are those of one device.
"""

from __future__ import annotations

import re
from typing import Final

from dtensor.dialect.callbacks import TARGET, target_of
from dtensor.dialect.mlir import Value, ir, is_read
from dtensor.dialect.names import FACTOR, PRODUCT, QR
from dtensor.passes.builder import Builder
from dtensor.passes.forms.factors import reflectors
from dtensor.passes.ops.attributes import BACKEND_CONFIG, backend_config, integer, shape_of
from dtensor.passes.ops.contraction import matrix_product
from dtensor.passes.program import CUSTOM_CALL
from dtensor.passes.rewriting.rewriting import Rewriting
from dtensor.passes.rewriting.shards import Shards

_CALL = re.compile(r"lapack_([sdcz])gesdd_ffi\Z")
_LAYOUTS: Final = ("operand_layouts", "result_layouts")
_MODES = (ord("N"), ord("S"))  # singular values alone, or as many vectors too
_SAID: Final = (BACKEND_CONFIG, *_LAYOUTS, "output_operand_aliases")
_OVERWRITTEN, _VALUES, _LEFT, _RIGHT = range(4)  # of the results; the last is whether all went well


def replace_svd(call: ir.Operation, function: Rewriting) -> None:
    """Let a QR and a call of its R stand for a call whose matrices are long and split there."""
    found = _CALL.match(target_of(call))
    if found and _is_split(call, function.shards):
        function.replace(call, *_values(call, found[1], Builder(call, function.made)))


def _is_split(call: ir.Operation, shards: Shards) -> bool:
    """Whether shards of the long dimension are known to have as many elements as the short one."""
    if any(name not in call.attributes for name in _SAID) or is_read(call.results[_OVERWRITTEN]):
        return False
    *batch, rows, columns = shape_of(call.operands[0])
    config = backend_config(call)
    if "mode" not in config or integer(config["mode"]) not in _MODES:
        return False
    count = shards.count((call.operands[0], len(batch) + int(columns > rows)))
    return count > 1 and max(rows, columns) // count >= min(rows, columns) > 0


def _values(call: ir.Operation, element: str, make: Builder) -> list[Value]:
    """What stands for the results of a call; nobody reads what it overwrites."""
    matrix, results = call.operands[0], call.results
    *batch, rows, columns = make.shape_of(matrix)
    order = [*range(len(batch)), len(batch) + 1, len(batch)]
    is_wide, size = columns > rows, min(rows, columns)
    if is_wide:
        matrix = make.transpose(matrix, order)
    square = make.tensor_type((*batch, size, size), make.element_of(matrix))
    factor = _factor(call, element)
    pair = {FACTOR: ir.DictAttr.get(factor), PRODUCT: ir.DictAttr.get(reflectors(factor))}
    q, r = make.create(QR, [matrix], [matrix.type, square], pair).results
    types = [square, results[_VALUES].type, square, square, results[-1].type]
    said = _kept(call, *_SAID, TARGET)
    core = make.transpose(r, order) if is_wide else r
    found = make.create(CUSTOM_CALL, [core], types, said)
    values = list[Value](found.results)
    along = _RIGHT if is_wide else _LEFT
    if is_read(results[along]):
        if is_wide:
            values[along] = matrix_product(make, values[along], make.transpose(q, order))
        else:
            values[along] = matrix_product(make, q, values[along])
    return values


def _factor(call: ir.Operation, element: str) -> dict[str, ir.Attribute]:
    """What LAPACK's QR of the same matrices says."""
    matrix, scales = list(ir.ArrayAttr(call.attributes[_LAYOUTS[1]]))[: _VALUES + 1]
    return {
        **_kept(call),
        TARGET: ir.StringAttr.get(f"lapack_{element}geqrf_ffi"),
        BACKEND_CONFIG: ir.DictAttr.get({}),
        _LAYOUTS[0]: ir.ArrayAttr.get([matrix]),
        _LAYOUTS[1]: ir.ArrayAttr.get([matrix, scales]),
    }


def _kept(call: ir.Operation, *more: str) -> dict[str, ir.Attribute]:
    """What a call says of how to call and of its batch, and more."""
    names = ("api_version", "backend_config", "mhlo.frontend_attributes", *more)
    return {name: call.attributes[name] for name in names if name in call.attributes}
