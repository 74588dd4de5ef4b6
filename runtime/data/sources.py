"""Sources: what a dataset may be, by how its elements can be read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from dtensor.runtime.array import DTensor
from dtensor.runtime.data.elements import (
    ElementSpec,
    canonical_dtype,
    check_numeric,
    host_array,
)
from dtensor.runtime.data.stream import END, Stream


@dataclass(frozen=True)
class Arrays:
    """Arrays whose first dimension counts the examples; parts of them are read where needed.

    Attributes:
        leaves: the arrays: numpy's, or others with `shape`, `dtype` and slicing, such as a file's.
        spec: what one example is.
        length: number of examples.
    """

    leaves: tuple[Any, ...]
    spec: ElementSpec
    length: int

    def __str__(self) -> str:
        return "arrays" if len(self.leaves) > 1 else "array"

    def element(self, number: int) -> Any:
        """One row of every array."""
        return jax.tree.unflatten(self.spec.structure, [leaf[number] for leaf in self.leaves])


@dataclass
class Indexed:
    """Elements that can be read in any order: only those that are needed are read."""

    read: Callable[[int], Any]
    length: int
    name: str
    _ahead: dict[int, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    def first(self, number: int) -> Any:
        """An element that the first pass will not read again."""
        if number not in self._ahead:
            self._ahead[number] = self._read(number)
        return self._ahead[number]

    def element(self, number: int) -> Any:
        """The element of this number."""
        element = self._ahead.pop(number, END)
        return self._read(number) if element is END else element

    def _read(self, number: int) -> Any:
        try:
            return self.read(number)
        except Exception as error:
            error.add_note(f"while dtensor read element {number} of {self.length} of a {self.name}")
            raise


class Iterated:
    """Elements that come in order: every process reads all of them.

    Attributes:
        length: number of elements where it is known.
    """

    def __init__(
        self, make: Callable[[], Iterator[Any]], name: str, once: bool, length: int | None = None
    ) -> None:
        self._make = make
        self._once = once
        self._claimed = False
        self._ahead: Stream | None = None
        self._lock = threading.Lock()
        self.name = name
        self.length = length

    def __str__(self) -> str:
        return self.name

    def claim(self) -> None:
        """Announce a pass.

        Raises:
            ValueError: the dataset can be read once, and was.
        """
        if self._once and self._claimed:
            raise ValueError(
                f"the dataset is a {self.name}, which can be read once, and a pass over it has "
                "begun; for several passes give a function that makes one, or a list"
            )
        self._claimed = True

    def first(self) -> Any:
        """The first element, or END; the next pass gives it again without reading it twice."""
        with self._lock:
            if self._ahead is None:
                self._ahead = Stream(self._make(), owned=not self._once)
            return self._ahead.peek()

    def open(self) -> Stream:
        """A stream of the elements from the first one; the same one where they come once."""
        with self._lock:
            stream = self._ahead or Stream(self._make(), owned=not self._once)
            self._ahead = stream if self._once else None
        return stream


Source = Arrays | Indexed | Iterated

_KINDS = (
    "it may be an array, a tuple or dict of arrays, a list or anything with len() and [], an "
    "iterable, a function that makes an iterator, or a grain dataset"
)


def source_of(dataset: Any) -> Source:
    """How the elements of a dataset can be read; nothing is read yet.

    A tuple, dict or other pytree of arrays is arrays; a list is a sequence of elements.

    Raises:
        TypeError: it is none of the things a dataset may be.
        ValueError: its arrays have different numbers of examples.
    """
    _refuse_what_is_no_dataset(dataset)
    if _is_array(dataset):
        return _arrays(dataset)
    if not isinstance(dataset, list) and _is_taken_apart(dataset):
        leaves = jax.tree.leaves(dataset)
        if leaves and all(_is_array(leaf) for leaf in leaves):
            return _arrays(dataset)
        _refuse_mixed(dataset)
    return _elements(dataset)


def _is_taken_apart(dataset: Any) -> bool:
    return jax.tree_util.default_registry.flatten_one_level(dataset) is not None


def _elements(dataset: Any) -> Source:
    name = type(dataset).__name__
    if isinstance(dataset, Mapping):
        raise TypeError(f"dataset is a {name} that jax does not take apart; give a dict of arrays")
    if isinstance(dataset, Iterator):
        return Iterated(lambda: dataset, name, once=True)
    if hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__"):
        return Indexed(dataset.__getitem__, len(dataset), name)
    if isinstance(dataset, Iterable):
        length = len(dataset) if isinstance(dataset, Sized) else None
        return Iterated(lambda: iter(dataset), name, once=False, length=length)
    if callable(dataset):
        name = getattr(dataset, "__name__", name)
        return Iterated(lambda: _called(dataset, name), f"{name}()", once=False)
    raise TypeError(f"dataset is of type {name}; {_KINDS}")


def _called(make: Callable[[], Any], name: str) -> Iterator[Any]:
    made = make()
    if not isinstance(made, Iterable):
        raise TypeError(
            f"the dataset's function {name} returned a {type(made).__name__}; it must return an "
            "iterator"
        )
    return iter(made)


def _refuse_what_is_no_dataset(dataset: Any) -> None:
    if isinstance(dataset, DTensor):
        raise TypeError("dataset is a DTensor, which lies on a mesh already; give host arrays")
    if dataset is None or isinstance(dataset, str | bytes | bytearray):
        raise TypeError(f"dataset is {dataset!r}; {_KINDS}")
    if isinstance(dataset, np.ndarray | np.generic | jax.Array) and not dataset.shape:
        raise TypeError(
            "dataset is an array without dimensions; the first dimension counts the examples"
        )
    if isinstance(dataset, set | frozenset):
        raise TypeError("dataset is a set, which has no order; give a list")


def _refuse_mixed(dataset: Any) -> None:
    """A tuple may hold elements; in anything else that jax takes apart, only arrays make sense."""
    if isinstance(dataset, tuple) and not hasattr(dataset, "_fields"):
        return
    for path, leaf in jax.tree_util.tree_leaves_with_path(dataset):
        if not _is_array(leaf):
            raise TypeError(
                f"dataset{jax.tree_util.keystr(path)} is a {type(leaf).__name__}; a "
                f"{type(dataset).__name__} must hold arrays, whose first dimension counts the "
                "examples: use np.asarray"
            )
    raise TypeError(f"dataset is an empty {type(dataset).__name__}")


def _is_array(value: Any) -> bool:
    has_all = all(hasattr(value, name) for name in ("shape", "dtype", "__getitem__"))
    return has_all and len(value.shape) > 0


def _arrays(dataset: Any) -> Arrays:
    paths, structure = jax.tree_util.tree_flatten_with_path(
        dataset, is_leaf=lambda node: isinstance(node, DTensor)
    )
    texts = tuple(jax.tree_util.keystr(path) for path, _ in paths)
    leaves = []
    for (_, leaf), text in zip(paths, texts, strict=True):
        where = f"dataset{text}"
        lies_elsewhere = isinstance(leaf, jax.Array | DTensor)
        if lies_elsewhere or not isinstance(leaf.dtype, np.dtype) or isinstance(leaf, np.ndarray):
            leaf = host_array(leaf, where)
        check_numeric(leaf.dtype, where)
        leaves.append(leaf)
    lengths = [int(leaf.shape[0]) for leaf in leaves]
    odd = next((i for i, length in enumerate(lengths) if length != lengths[0]), None)
    if odd is not None:
        raise ValueError(
            f"dataset{texts[0]} has {lengths[0]} examples, dataset{texts[odd]} has {lengths[odd]}; "
            "all arrays need the same first dimension"
        )
    shapes = tuple(tuple(int(n) for n in leaf.shape[1:]) for leaf in leaves)
    dtypes = tuple(canonical_dtype(leaf.dtype) for leaf in leaves)
    return Arrays(tuple(leaves), ElementSpec(structure, texts, shapes, dtypes), lengths[0])


def elements_of_arrays(source: Arrays) -> Indexed:
    """The same arrays as elements, each a row: for rows that are batches themselves."""
    return Indexed(source.element, source.length, str(source))


def is_free_to_read(dataset: Any) -> bool:
    """Whether reading an element ahead of time costs nothing and nobody can notice it."""
    return type(dataset) in (list, tuple, range)
