"""The dataset of DTensors, global batches of examples, and passes over it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import jax
import numpy as np

from dtensor.dialect.errors import LayoutError
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.clients import agreement
from dtensor.runtime.data.batches import Batches, Batching, bound, by_number, check_enough, in_order
from dtensor.runtime.data.elements import at
from dtensor.runtime.data.prefetch import ReadAhead
from dtensor.runtime.data.sources import Iterated, source_of
from dtensor.runtime.placement import named_sharding
from dtensor.runtime.shardings import AnyLayout, AnyMesh, as_mesh, layout_anywhere, rank_of
from dtensor.runtime.tracing import is_eager


class DTensorDataset:
    """Global batches of a dataset's examples, as DTensors.

    Batch number b holds the examples from `b * global_batch_size` on, in the dataset's order, on
    one process as on many. Each process keeps and transfers only the parts that its own devices
    hold. Of arrays, lists, and whatever has `len()` and `[]`, it reads only those; an iterable
    must be read whole by each process, and must give every process the same order.

    What can be known without reading is checked at once, the rest with the first batch. Nothing is
    read before the first batch is asked for, except by `element_spec`.

    Args:
        dataset: the examples. An array, or a tuple, dict or other pytree of arrays, whose first
            dimension counts the examples; a list, a `grain.MapDataset` or anything with `len()`
            and `[]`; an iterable, a `grain.IterDataset`, a `grain.DataLoader`; an iterator, for
            one pass; or a function that makes an iterator, for each pass one. An example is an
            array, a number, or a pytree of them.
        mesh: the mesh that the batches lie on.
        layouts: the layout of each array of a batch, in the structure of an example; or one for
            all. Dimension 0 of a batch is the batch; the others are split as the layout says. Or
            NamedShardings, or PartitionSpecs over `mesh`.
        global_batch_size: examples in a batch, over all devices.
        dataset_already_batched: whether an element is a batch: of the examples of one replica,
            `global_batch_size` divided by the size of `batch_dim`, or of a whole global batch.
        batch_dim: the mesh axis that splits the batch; every layout must have it in dimension 0.
            None leaves that to the layouts.
        prefetch: how many batches a thread may read ahead and put on the devices; None reads
            when a batch is asked for.
        drop_remainder: whether examples at the end that do not fill a batch are left out. If not,
            they make a smaller batch.

    Raises:
        LayoutError: a layout is of another mesh, lacks `batch_dim`, or does not fit a batch.
        ValueError: batch size, structure, shapes or number of examples do not fit.
        TypeError: an argument is of the wrong type, or examples are not numeric.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> examples = np.arange(24.0).reshape(12, 2)
        >>> data = dtensor.DTensorDataset(examples, mesh=mesh, layouts=rows, global_batch_size=4)
        >>> [batch.local_shape for batch in data]
        [(2, 2), (2, 2), (2, 2)]
    """

    def __init__(
        self,
        dataset: Any,
        *,
        mesh: AnyMesh,
        layouts: Any,
        global_batch_size: int,
        dataset_already_batched: bool = False,
        batch_dim: str | None = None,
        prefetch: int | None = None,
        drop_remainder: bool = True,
    ) -> None:
        self.mesh = as_mesh(mesh)
        global_batch_size = _count("global_batch_size", global_batch_size, 1)
        self.global_batch_size = global_batch_size
        self._batch_dim = batch_dim
        self._prefetch = _count("prefetch", prefetch or 0, 0)
        replicas = 1 if batch_dim is None else self.mesh.axis_size(batch_dim)
        if global_batch_size % replicas:
            raise LayoutError(
                f"global_batch_size {global_batch_size} is not divisible by the {replicas} "
                f'replicas of batch_dim "{batch_dim}"; make it a multiple of {replicas}'
            )
        _check_layouts(layouts, self.mesh, None if replicas == 1 else batch_dim)
        self._source = source_of(dataset, dataset_already_batched)
        self._layouts = layouts
        self._drop_remainder = drop_remainder
        sizes = (global_batch_size // replicas, global_batch_size)
        self._sizes = sizes if dataset_already_batched else None
        self._batching: Batching | None = None
        # These may be read ahead of time: that costs nothing, and nobody can notice it.
        if self._source.name in ("array", "arrays", "list", "tuple", "range"):
            self._resolved()

    def _resolved(self) -> Batching:
        if self._batching is None:
            source, size = self._source, self.global_batch_size
            batching = bound(source, self._layouts, self.mesh, size, self._sizes)
            if not isinstance(source, Iterated):
                least = size if self._drop_remainder else 1
                check_enough(source, source.length * batching.rows, least)
            self._batching = batching
        return self._batching

    def _agree(self, start: int) -> None:
        """Check that all clients begin a pass over as many batches, with the same one."""
        clients = agreement.clients_of(self.mesh)
        if len(clients) > 1 and jax.process_index() in clients:
            length = self._source.length
            facts = {
                "the number of examples in a dataset": "unknown" if length is None else str(length),
                "the batch size": str(self.global_batch_size),
                "the batch that comes next": str(start),
            }
            remedy = "all clients must pass the whole dataset, and the same state"
            agreement.agree("pass over a dataset", clients, facts, remedy)

    def _batches(self, start: int, state: Any) -> Batches:
        """The batches from a number on, where the source's own position is `state`, if known."""
        batching, source, size = self._resolved(), self._source, self.global_batch_size
        if isinstance(source, Iterated):
            return in_order(source, batching, size, self._drop_remainder, start, state)
        if start > len(self):
            raise ValueError(
                f"the state is after batch {start} but the dataset has {len(self)}; restore it to "
                "the same dataset"
            )
        return by_number(source, batching, size, range(start, len(self)))

    @property
    def element_spec(self) -> Any:
        """Global shape, element type and sharding of each array of a whole batch.

        Reads the first element where that is not known yet.

        Returns:
            A `jax.ShapeDtypeStruct` for each array, in the structure of the elements.
        """
        batching = self._resolved()
        return jax.tree.unflatten(batching.spec.structure, batching.specs(self.global_batch_size))

    def __iter__(self) -> DTensorIterator:
        return DTensorIterator(self)

    def __len__(self) -> int:
        source, size = self._source, self.global_batch_size
        if source.length is None:
            raise TypeError(
                f"the number of batches is not known: a {source.name} is read in order to its end"
            )
        total = source.length * (1 if self._sizes is None else self._resolved().rows)
        return total // size if self._drop_remainder else -(-total // size)

    def __repr__(self) -> str:
        source, batching = self._source, self._batching
        words = [source.name, f"global_batch_size={self.global_batch_size}"]
        words += [] if self._batch_dim is None else [f"batch_dim={self._batch_dim!r}"]
        words += [f"prefetch={self._prefetch}"] if self._prefetch else []
        if source.length is not None and (batching or self._sizes is None):
            words.append(f"{len(self)} batches")
        lines = [f"DTensorDataset({', '.join(words)})"]
        if batching is not None:
            specs = batching.specs(self.global_batch_size)
            for path, spec, layout in zip(
                batching.spec.paths, specs, batching.layouts, strict=True
            ):
                size = ",".join(map(str, spec.shape))
                lines.append(f"  {path}{': '[: len(path)]}{spec.dtype}[{size}] {layout.short()}")
        return "\n".join(lines)


class DTensorIterator(AbstractContextManager["DTensorIterator", None]):
    """One pass over a `DTensorDataset`; ends with `close`, a `with` block, or when unused."""

    def __init__(self, dataset: DTensorDataset) -> None:
        self._dataset = dataset
        self._next: tuple[int, Any] = (0, None)  # number of the batch, position of the source
        self._batches: Batches | ReadAhead | None = None
        self._is_closed = False

    @property
    def element_spec(self) -> Any:
        """As the dataset's."""
        return self._dataset.element_spec

    def __iter__(self) -> DTensorIterator:
        return self

    def __next__(self) -> Any:
        if self._is_closed:
            raise StopIteration
        if not is_eager():
            raise RuntimeError(
                "a batch was asked for inside a traced function, which would make that one batch a "
                "constant of the program; ask for it outside and pass it in"
            )
        if self._batches is None:
            self._dataset._agree(self._next[0])
            batches = self._dataset._batches(*self._next)
            ahead = self._dataset._prefetch
            self._batches = ReadAhead(batches, ahead) if ahead else batches
        try:
            tensors, source_state = next(self._batches)
        except Exception:
            self.close()
            raise
        except BaseException:  # an interrupt does not wait for the thread
            self._is_closed, self._batches = True, None
            raise
        self._next = self._next[0] + 1, source_state
        return tensors

    def close(self) -> None:
        """End the pass and its thread; more batches are not given."""
        self._is_closed = True
        self._end_pass()

    def _end_pass(self) -> bool:
        batches, self._batches = self._batches, None
        return batches is None or batches.close() is not False

    def state(self) -> dict[str, Any]:
        """Where the pass stands: what `restore` needs to go on with the next batch.

        Returns:
            Numbers, and the source's own position where it tells one, as grain's iterators do.
        """
        number, source = self._next
        size = self._dataset.global_batch_size
        return {"next_batch": number, "global_batch_size": size, "source": source}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with the batch that came next when `state` was taken.

        Arrays and whatever has `[]` go there at once, as do sources that tell their position; other
        iterables are read until there.

        Raises:
            ValueError: it is not such a state, or one of another batch size. The next batch raises
                it where the dataset cannot go to that position.
        """
        known, size = state if isinstance(state, Mapping) else {}, self._dataset.global_batch_size
        number = known.get("next_batch")
        if not isinstance(number, int) or number < 0 or known.get("global_batch_size") != size:
            raise ValueError(
                f"{state!r} is not a state of a DTensorDataset's iterator over batches of {size} "
                "examples"
            )
        if not self._end_pass():
            raise RuntimeError("the thread that reads ahead is still reading; restore later")
        self._next = number, known.get("source")
        self._is_closed = False

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        where = "closed" if self._is_closed else f"next batch {self._next[0]}"
        return f"DTensorIterator({where})\n{self._dataset!r}"


def _check_layouts(layouts: Any, mesh: Mesh, batch_dim: str | None) -> None:
    leaves = jax.tree_util.tree_leaves_with_path(layouts)
    if not leaves:
        raise TypeError(f"layouts is {layouts!r}, which holds no Layout")
    for path, layout in leaves:
        where = jax.tree_util.keystr(path)
        if not isinstance(layout, AnyLayout):
            raise TypeError(
                f"layouts{where} is {layout!r}; layouts must be a Layout, or Layouts in the "
                "structure of the dataset's elements"
            )
        layout = layout_anywhere(layout, rank_of(layout), mesh, f"layouts{where}")
        text = f"layout {layout.short()}{at(where)}"
        if layout.mesh != mesh:
            raise LayoutError(f"{text} is of {layout.mesh!r}, the dataset's mesh is {mesh!r}")
        named_sharding(layout)  # refuses layouts that no array can have
        axes = layout.dims[0].axes if layout.dims else ()
        if batch_dim is not None and all(axis.name != batch_dim for axis in axes):
            raise LayoutError(
                f'batch_dim "{batch_dim}" does not split dimension 0 of {text}; let every layout '
                "split it, or leave batch_dim out"
            )


def _count(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} is {value!r}; it must be an integer of at least {least}")
    return int(value)
