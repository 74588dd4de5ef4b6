"""What PyTorch's tensors have and arrays here do not, and what to write instead."""

from __future__ import annotations

from typing import Final

_WHOLE: Final = "dtensor.relayout(x, Layout.replicated(x.mesh, x.ndim))"
_GRADIENT: Final = "jax.grad(loss)(params, ...), whose result has the gradients"
_INSTEAD: Final = {
    "backward": _GRADIENT,
    "clone": "x.copy()",
    "cpu": f"x.numpy(), of a sharded one {_WHOLE}.numpy()",
    "cuda": "dtensor.copy_to_mesh(x, layout), with a layout on a mesh of GPUs",
    "detach": "jax.lax.stop_gradient(x), in a traced function; elsewhere x is a constant",
    "device_mesh": "x.mesh",
    "dim": "x.ndim",
    "expand": "dtensor.numpy.broadcast_to(x, shape)",
    "float": 'x.astype("float32")',
    "full_tensor": _WHOLE,
    "grad": _GRADIENT,
    "half": 'x.astype("float16")',
    "masked_fill": "dtensor.numpy.where(mask, value, x)",
    "numel": "x.size",
    "permute": "x.transpose(1, 0)",
    "placements": "x.layout",
    "redistribute": "dtensor.relayout(x, layout)",
    "requires_grad": _GRADIENT,
    "requires_grad_": _GRADIENT,
    "to": "x.astype(dtype), or dtensor.copy_to_mesh(x, layout)",
    "to_local": "x.unpack()",
    "unsqueeze": "dtensor.numpy.expand_dims(x, axis)",
    "view": "x.reshape(4, 8), or of the bits x.to_jax().view(dtype)",
}
_OF_ARRAYS_ALONE: Final = ("cpu", "cuda", "device_mesh", "full_tensor", "placements", "to_local")


def instead_of_torch(name: str, traced: bool = False) -> str | None:
    """What to write for an attribute of PyTorch's tensors; None where it is not one of them.

    Of an array that jax traces, which has no values yet, some of it cannot be written.
    """
    if traced and name in _OF_ARRAYS_ALONE:
        return None
    if name.endswith("_") and not name.startswith("_") and name not in _INSTEAD:
        return "x = x + y, say: no array is changed in place"
    return _INSTEAD.get(name)
