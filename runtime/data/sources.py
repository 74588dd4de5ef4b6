"""Sources: what a dataset may be, by how its elements can be read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from dtensor.runtime.data.elements import ElementSpec, spec_of_arrays
from dtensor.runtime.transfer import refusal

END = object()  # what comes after the last element


@dataclass(frozen=True)
class Arrays:
    """Arrays whose first dimension counts the examples; parts of them are read where needed.

    They are numpy's, or others with `shape`, `dtype` and slicing, such as a file's.
    """

    leaves: tuple[Any, ...]
    spec: ElementSpec
    length: int
    name: str


@dataclass(frozen=True)
class Indexed:
    """Elements that can be read in any order: only those that are needed are read."""

    read: Callable[[int], Any]
    length: int
    name: str

    def element(self, number: int) -> Any:
        """The element of this number.

        Raises:
            ValueError: it is None, as a filtered grain.MapDataset gives.
        """
        try:
            element = self.read(number)
        except Exception as error:
            error.add_note(f"while dtensor read element {number} of {self.length} of a {self.name}")
            raise
        if element is None:
            raise ValueError(
                f"element {number} of the dataset is None, so which elements make a batch is not "
                "known without reading them all; where a filter left it out, read the dataset in "
                "order: .to_iter_dataset() of a grain.MapDataset"
            )
        return element


@dataclass
class Iterated:
    """Elements that come in order: every process reads all of them.

    `make` gives the iterator of a pass; `once` says that it is the user's own, which can be read
    once.
    """

    make: Callable[[], Iterator[Any]]
    name: str
    once: bool
    length: int | None = None
    _ahead: Stream | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self, keep: bool = False) -> Stream:
        """A stream from the first element; the same one where they come once.

        With `keep` the next pass gets this stream too, and reads nothing twice.
        """
        with self._lock:
            stream = self._ahead or Stream(self.make(), not self.once)
            self._ahead = stream if keep or self.once else None
        return stream


@dataclass
class Stream:
    """One pass over elements that come in order; `count` are given so far."""

    _iterator: Iterator[Any]
    _owned: bool
    _ahead: list[Any] = field(default_factory=list)
    count: int = 0

    def peek(self) -> Any:
        """The next element, or END; `next` gives it again."""
        if not self._ahead:
            self._ahead.append(next(self._iterator, END))
        return self._ahead[0]

    def next(self) -> Any:
        """The next element, or END."""
        element = self._ahead.pop() if self._ahead else next(self._iterator, END)
        self.count += element is not END
        return element

    def state(self) -> Any:
        """What the iterator itself says of its position, as grain's do; else None."""
        if not hasattr(self._iterator, "get_state") or self._ahead:
            return None
        return self._iterator.get_state()

    def seek(self, count: int, batch: int, state: Any) -> None:
        """Go to the position after `count` elements, or to the end within the batch before it.

        `state` is what `state()` gave there; None reads elements until there.

        Raises:
            ValueError: the position is behind, or past the end.
            AttributeError: a state, and the iterator is of another kind, which cannot take it.
        """
        if state is not None:
            self._iterator.set_state(state)  # type: ignore[attr-defined]
            self._ahead.clear()
            self.count = count
        if count < self.count:
            raise ValueError(
                f"cannot go back to element {count}: the dataset is an iterator that can be read "
                f"once, and {self.count} elements are read; for several passes give a function "
                "that makes one, or a list; to restore a state make it anew"
            )
        while self.count < count and self.next() is not END:
            pass
        if self.count <= count - batch:
            raise ValueError(
                f"the state is after element {count} but the dataset has {self.count} elements; "
                "restore it to the same dataset"
            )

    def close(self) -> None:
        """End an iterator that was opened here; one that the user gave stays open."""
        close = getattr(self._iterator, "close", None)
        if self._owned and callable(close):
            close()


Source = Arrays | Indexed | Iterated


def source_of(dataset: Any, batched: bool) -> Source:
    """How the elements of a dataset can be read; nothing is read yet.

    A tuple, dict or other pytree of arrays is arrays, and if it is batched, each row is an element;
    a list is a sequence of elements, and so is a tuple of other things.

    Raises:
        TypeError: it is none of the things a dataset may be.
        ValueError: its arrays have different numbers of examples.
    """
    is_node = jax.tree_util.default_registry.flatten_one_level(dataset) is not None
    if _is_array(dataset) or (is_node and not isinstance(dataset, list | None)):
        found, structure = jax.tree_util.tree_flatten_with_path(dataset)
        if found and all(_is_array(leaf) for _, leaf in found):
            return _arrays(found, structure, batched)
    name = type(dataset).__name__
    if isinstance(dataset, Iterator):
        return Iterated(lambda: dataset, name, once=True)
    if isinstance(dataset, Mapping | set | frozenset | str | bytes) or _has(dataset, "dtype"):
        pass  # has no order, no numbers, or no dimension
    elif is_node and type(dataset) not in (list, tuple):
        pass  # has parts that are no arrays
    elif _has(dataset, "__len__", "__getitem__"):
        return Indexed(dataset.__getitem__, len(dataset), name)
    elif isinstance(dataset, Iterable):
        length = len(dataset) if isinstance(dataset, Sized) else None
        return Iterated(lambda: iter(dataset), name, once=False, length=length)
    elif callable(dataset):
        name = getattr(dataset, "__name__", name)
        return Iterated(lambda: _made(dataset(), name), f"{name}()", once=False)
    raise TypeError(
        f"dataset is of type {name}; it may be an array, a tuple or dict of arrays, whose first "
        "dimension counts the examples, a list or anything with len() and [], an iterable, a "
        "function that makes an iterator, or a grain dataset"
    )


def _made(made: Any, name: str) -> Iterator[Any]:
    if isinstance(made, Iterable):
        return iter(made)
    raise TypeError(
        f"{name}() gives the dataset, but is of type {type(made).__name__}; give a list"
    )


def _has(value: Any, *names: str) -> bool:
    return all(hasattr(value, name) for name in names)


def _is_array(value: Any) -> bool:
    return _has(value, "shape", "dtype", "__getitem__") and len(value.shape) > 0


def _arrays(found: list[tuple[Any, Any]], structure: Any, batched: bool) -> Source:
    paths = [jax.tree_util.keystr(path) for path, _ in found]
    leaves = []
    for path, (_, leaf) in zip(paths, found, strict=True):
        if isinstance(leaf, jax.Array) or not isinstance(leaf.dtype, np.dtype):
            leaf = np.asarray(leaf)
        wrong = refusal(leaf if isinstance(leaf, np.ndarray) else np.empty(0, leaf.dtype))
        if wrong is not None:
            raise TypeError(f"dataset{path} {wrong}")
        leaves.append(leaf)
    lengths = [int(leaf.shape[0]) for leaf in leaves]
    for path, length in zip(paths, lengths, strict=True):
        if length != lengths[0]:
            raise ValueError(
                f"dataset{paths[0]} has {lengths[0]} examples, dataset{path} has {length}; all "
                "arrays need the same first dimension"
            )
    name = "arrays" if len(leaves) > 1 else "array"
    if batched:
        return Indexed(
            lambda number: jax.tree.unflatten(structure, [leaf[number] for leaf in leaves]),
            lengths[0],
            name,
        )
    spec = spec_of_arrays(leaves, structure, paths, skip=1)
    return Arrays(tuple(leaves), spec, lengths[0], name)
