"""Questions about arrays: whether one is a DTensor, and whether it is laid out as expected."""

from __future__ import annotations

from typing import Any

import jax

from dtensor.dialect.device_spec import DeviceSpec
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.runtime.naming import job_name
from dtensor.runtime.operators import Operators
from dtensor.runtime.transfer import fetch_layout


def is_dtensor(tensor: Any) -> bool:
    """Whether a value is a DTensor, or a variable of one; False for anything else."""
    return isinstance(tensor, Operators)


def check_layout(tensor: Any, layout: Layout) -> None:
    """Check that an array has a layout.

    Args:
        tensor: a DTensor, or a jax.Array on a mesh.
        layout: the layout it should have, on the same mesh. Priorities say when the compiler
            spreads a layout, and no array has them: they are not compared.

    Raises:
        LayoutError: it has another one, or none.
    """
    if not isinstance(layout, Layout):
        wrong = type(layout).__name__
        raise TypeError(f"check_layout compares with a Layout, not a value of type {wrong}")
    found = fetch_layout(tensor)
    is_open = any(dim.is_open for dim in layout.dims)
    if found != (layout if is_open else layout.closed()):
        raise LayoutError(
            f"Layout of tensor: {found!s}, did not match expected layout: {layout!s}; bring it "
            "there with dtensor.relayout(tensor, layout)"
        )


def device_name() -> str:
    """The name that stands for all devices of a mesh together, as TensorFlow DTensor writes it.

    Such as `/job:localhost/replica:0/task:0/device:CUSTOM:0`. jax has no device of this name and
    needs none: a program runs on the mesh of its arrays, or on the default mesh. It is here for
    programs that print or compare it.
    """
    return DeviceSpec(job_name(), 0, jax.process_index(), "CUSTOM", 0).to_string()
