"""The dataset of DTensors: global batches of examples, laid out over a mesh."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from dtensor.dialect.errors import ConfigError, LayoutError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.data.elements import at
from dtensor.runtime.data.iterator import DTensorIterator
from dtensor.runtime.data.passes import Plan
from dtensor.runtime.data.sources import Arrays, source_of
from dtensor.runtime.placement import named_sharding
from dtensor.runtime.shardings import AnyMesh, as_mesh


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
            all. Dimension 0 of a batch is the batch; the others are split as the layout says.
        global_batch_size: examples in a batch, over all devices.
        dataset_already_batched: whether an element is a batch: of the examples of one replica,
            `global_batch_size` divided by the size of `batch_dim`, or of a whole global batch.
        batch_dim: the mesh axis that splits the batch; every layout must have it in dimension 0.
            None leaves that to the layouts.
        prefetch: how many batches a thread may read ahead and put on the devices; None reads
            when a batch is asked for.
        tf_data_service_config: refused; it is here so that the error can say why.
        drop_remainder: whether examples at the end that do not fill a batch are left out. If not,
            they make a smaller batch.

    Raises:
        ConfigError: tf_data_service_config is given; there is no such service.
        LayoutError: a layout is of another mesh, lacks `batch_dim`, or does not fit a batch.
        ValueError: batch size, structure, shapes or number of examples do not fit.
        TypeError: an argument is of the wrong type, or examples are not numeric.

    Example:
        `DTensorDataset((x, y), mesh=mesh, layouts=rows, global_batch_size=64, batch_dim="data")`
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
        tf_data_service_config: None = None,
        drop_remainder: bool = True,
    ) -> None:
        if tf_data_service_config is not None:
            raise ConfigError(
                "there is no tf.data service here: each client already reads only its part of the "
                "dataset; leave tf_data_service_config out"
            )
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
        source = source_of(dataset)
        # A list may be read ahead of time: that costs nothing, and nobody can notice it.
        is_known = isinstance(source, Arrays) or type(dataset) in (list, tuple, range)
        if isinstance(source, Arrays) and dataset_already_batched:
            source = source.as_elements()
        rows = (global_batch_size // replicas, global_batch_size)
        self._plan = Plan(
            source,
            layouts,
            global_batch_size,
            rows if dataset_already_batched else None,
            drop_remainder,
        )
        if is_known:
            self._plan.resolve()

    @property
    def element_spec(self) -> Any:
        """Global shape, element type and sharding of each array of a whole batch.

        Reads the first element where that is not known yet.

        Returns:
            A `jax.ShapeDtypeStruct` for each array, in the structure of the elements.
        """
        batching = self._plan.resolve()
        return jax.tree.unflatten(
            batching.spec.structure,
            [
                jax.ShapeDtypeStruct(shape, dtype, sharding=named_sharding(layout))
                for shape, dtype, layout in zip(
                    batching.shapes(self.global_batch_size),
                    batching.spec.dtypes,
                    batching.layouts,
                    strict=True,
                )
            ],
        )

    def __iter__(self) -> DTensorIterator:
        return DTensorIterator(self, self._plan, self._prefetch)

    def __len__(self) -> int:
        return len(self._plan)

    def __repr__(self) -> str:
        plan, batching = self._plan, self._plan.batching
        words = [plan.source.name, f"global_batch_size={self.global_batch_size}"]
        words += [] if self._batch_dim is None else [f"batch_dim={self._batch_dim!r}"]
        words += [f"prefetch={self._prefetch}"] if self._prefetch else []
        if plan.source.length is not None and (batching or plan.element_rows is None):
            words.append(f"{len(self)} batches")
        lines = [f"DTensorDataset({', '.join(words)})"]
        if batching is not None:
            shapes = batching.shapes(self.global_batch_size)
            for path, dtype, shape, layout in zip(
                batching.spec.paths, batching.spec.dtypes, shapes, batching.layouts, strict=True
            ):
                size = ",".join(map(str, shape))
                lines.append(f"  {path + ': ' if path else ''}{dtype}[{size}] {layout.short()}")
        return "\n".join(lines)


def _check_layouts(layouts: Any, mesh: Mesh, batch_dim: str | None) -> None:
    leaves = jax.tree_util.tree_leaves_with_path(layouts)
    if not leaves:
        raise TypeError(f"layouts is {layouts!r}, which holds no Layout")
    for path, layout in leaves:
        where = jax.tree_util.keystr(path)
        if not isinstance(layout, Layout):
            raise TypeError(
                f"layouts{where} is {layout!r}; layouts must be a Layout, or Layouts in the "
                "structure of the dataset's elements"
            )
        text = f"layout {layout.short()}{at(where)}"
        if layout.mesh != mesh:
            raise LayoutError(f"{text} is of {layout.mesh!r}, the dataset's mesh is {mesh!r}")
        problem = layout.border_problem()
        if problem is not None:
            raise LayoutError(f"no array can have {text}: {problem}")
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
