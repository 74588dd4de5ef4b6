"""What NumPy has and devices have not: masks, structures, texts, dates, another order of bytes."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

_GIVE = "give numbers of at most 64 bits, or an array of them"


def refusal(array: Any) -> str | None:
    """Why devices cannot hold a NumPy array as it is: what follows its name; None if they can.

    Args:
        array: whatever a caller gave; what is no array of NumPy's is not looked at.
    """
    if isinstance(array, np.ma.MaskedArray):
        return "is a masked array, whose mask would be lost; fill it first: x.filled(value)"
    if not isinstance(array, np.ndarray | np.generic):
        return None
    dtype = array.dtype
    # numpy counts bfloat16 and its like among the structures; jax knows them
    is_number = dtype.kind == "b" or (dtype.kind != "m" and jax.numpy.issubdtype(dtype, np.number))
    if not is_number or dtype.itemsize > (16 if dtype.kind == "c" else 8):
        return f"has element type {dtype}, which devices cannot hold; {_GIVE}"
    if not dtype.isnative:
        return (
            f"has element type {dtype}, of another order of bytes than the machine; give "
            "x.astype(x.dtype.newbyteorder('='))"
        )
    return None
