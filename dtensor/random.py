"""Random numbers by seed, equal in every layout and on every mesh; the names are tf.random's."""

from typing import TYPE_CHECKING

from dtensor.compiler.random import dropout as dropout
from dtensor.compiler.random import stateless_random_normal as stateless_random_normal
from dtensor.compiler.random import stateless_random_uniform as stateless_random_uniform
from dtensor.compiler.random import stateless_split as stateless_split
from dtensor.compiler.random import stateless_truncated_normal as stateless_truncated_normal
from dtensor.dialect.diagnostics import did_you_mean

stateless_normal = stateless_random_normal
stateless_uniform = stateless_random_uniform

__all__ = [
    "dropout",
    "stateless_normal",
    "stateless_random_normal",
    "stateless_random_uniform",
    "stateless_split",
    "stateless_truncated_normal",
    "stateless_uniform",
]


if not TYPE_CHECKING:  # which then find misspelt names

    def __getattr__(name: str) -> object:
        known = did_you_mean(name, __all__)
        raise AttributeError(f"module 'dtensor.random' has no attribute '{name}'{known}")
