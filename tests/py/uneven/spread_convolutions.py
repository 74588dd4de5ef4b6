"""Convolutions over inputs with gaps, and their gradients, by NumPy.

XLA for CPU is no reference for all of them: it is itself wrong for some of negative padding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

NUMBERS = ("NHWC", "HWIO", "NHWC")


@dataclass(frozen=True)
class Spread:
    """A convolution of images; each field is of rows and of columns, in elements.

    Attributes:
        size: of the input.
        taps: of the kernel.
        gaps: places from one element of the input to the next.
        padding: places around the input.
        strides: places from one result to the next.
        apart: places from one element of the kernel to the next.
        groups: of features.
    """

    size: tuple[int, int]
    taps: tuple[int, int]
    gaps: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]
    strides: tuple[int, int] = (1, 1)
    apart: tuple[int, int] = (1, 1)
    groups: int = 1

    def __call__(self, x: Any, kernel: Any) -> Any:
        """The convolution by jax."""
        return lax.conv_general_dilated(
            x,
            kernel,
            self.strides,
            self.padding,
            self.gaps,
            self.apart,
            NUMBERS,
            feature_group_count=self.groups,
        )

    def loss(self, x: Any, kernel: Any) -> Any:
        """The sum of the results, each times a small number of its place."""
        y = self(x, kernel)
        return jnp.sum(y * weights(y.shape))

    def arguments(self) -> tuple[Any, Any]:
        """An input and a kernel of whole numbers, all sums of which are exact."""
        random = np.random.default_rng(sum(self.size))
        features = 2 * self.groups
        x = random.integers(-3, 4, (2, *self.size, features)).astype(np.float32)
        return x, random.integers(-2, 3, (*self.taps, 2, features)).astype(np.float32)

    def expected(self, x: Any, kernel: Any) -> Any:
        """The results."""
        around = self._around(np.asarray(x, np.float64))
        return sum(
            self._grouped(self._seen(around, place), kernel[place])
            for place in np.ndindex(self.taps)
        )

    def expected_gradients(self, x: Any, kernel: Any) -> tuple[Any, Any]:
        """Those of `loss`, for the input and for the kernel."""
        places = self._around(np.arange(1.0, x.size + 1).reshape(x.shape)).astype(int)
        source = np.concatenate([[0.0], np.asarray(x, np.float64).ravel()])
        of_source, of_kernel = np.zeros(source.shape), np.zeros(kernel.shape)
        given = weights(self.expected(x, kernel).shape).astype(np.float64)
        step = kernel.shape[-1] // self.groups
        for place in np.ndindex(self.taps):
            seen = self._seen(places, place)
            for g in range(self.groups):
                ins, outs = slice(2 * g, 2 * g + 2), slice(step * g, step * g + step)
                of_kernel[place][:, outs] = np.einsum(
                    "bhwi,bhwo->io", source[seen[..., ins]], given[..., outs]
                )
                back = np.einsum("bhwo,io->bhwi", given[..., outs], kernel[place][:, outs])
                np.add.at(of_source, seen[..., ins], back)
        return of_source[1:].reshape(x.shape), of_kernel

    def _around(self, x: Any) -> Any:
        """The input with its gaps and its padding."""
        for d, (gap, (low, high)) in enumerate(zip(self.gaps, self.padding, strict=True), 1):
            shape = list(x.shape)
            shape[d] = (shape[d] - 1) * gap + 1
            spread = np.zeros(shape)
            spread[(slice(None),) * d + (slice(None, None, gap),)] = x
            pads = [(0, 0)] * x.ndim
            pads[d] = max(low, 0), max(high, 0)
            x = np.pad(spread, pads)
            x = x[(slice(None),) * d + (slice(max(-low, 0), x.shape[d] - max(-high, 0)),)]
        return x

    def _seen(self, around: Any, place: tuple[int, ...]) -> Any:
        """What one element of the kernel is multiplied with."""
        rows = []
        for d in range(2):
            reach = (self.taps[d] - 1) * self.apart[d] + 1
            count = (around.shape[d + 1] - reach) // self.strides[d] + 1
            first = place[d] * self.apart[d]
            rows.append(slice(first, first + (count - 1) * self.strides[d] + 1, self.strides[d]))
        return around[:, rows[0], rows[1]]

    def _grouped(self, seen: Any, kernel: Any) -> Any:
        ins, outs = (np.split(side, self.groups, -1) for side in (seen, kernel))
        return np.concatenate([one @ other for one, other in zip(ins, outs, strict=True)], -1)


def weights(shape: tuple[int, ...]) -> Any:
    """Small numbers, one per element."""
    return (np.arange(np.prod(shape)) % 7 - 3).astype(np.float32).reshape(shape)
