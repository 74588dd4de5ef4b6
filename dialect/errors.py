"""The errors users can meet: each says what was found, what was needed and what to change."""


class DTensorError(Exception):
    """Base of every error that dtensor raises on purpose."""


class MeshError(DTensorError, ValueError):
    """A mesh that cannot exist, or that lacks what was asked of it."""


class LayoutError(DTensorError, ValueError):
    """A layout that cannot exist on its mesh, or that does not fit its tensor."""


class CompileError(DTensorError, ValueError):
    """A program that cannot be compiled; its message starts with `file:line:col` if known."""


class StrictError(CompileError):
    """A fallback or a relayout that nobody asked for, under `strict=True`."""


class BudgetError(CompileError):
    """The program communicates more, or otherwise, than a budget or a lock file allows."""


class MemoryLimitError(CompileError):
    """The program needs more bytes per device than `max_bytes_per_device` allows."""


class UnsupportedVersionError(DTensorError, ImportError):
    """The installed jax or jaxlib is outside the supported range."""


class ConfigError(DTensorError, ValueError):
    """A setting, or a call at this point, that does not fit how the process was set up."""


class NotFoundError(DTensorError, LookupError):
    """Something that was asked for does not exist here, such as a TPU."""


class ClientError(DTensorError, RuntimeError):
    """The clients of a run do not agree, or one of them is missing."""


class CheckpointError(DTensorError, ValueError):
    """A checkpoint that is not there, not whole, or not of the arrays asked for."""
