"""The checkpoint of an object: its variables and arrays, saved together and put back in place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtensor.dialect.errors import CheckpointError
from dtensor.runtime.checkpoint import series
from dtensor.runtime.checkpoint.files import Saving, listed, read_checkpoint, write_checkpoint
from dtensor.runtime.checkpoint.record import CheckpointInfo, Plain
from dtensor.runtime.checkpoint.state import (
    is_plain,
    restored_like,
    source_of,
    target_of,
    transform,
)
from dtensor.runtime.shardings import AnyMesh, as_mesh

_COUNTER = "save_counter"


@dataclass(frozen=True)
class RestoreStatus:
    """What a restore did; everything that was asked for is restored, or it raised.

    Attributes:
        path: the checkpoint.
        restored: names of what was restored.
        unused: names that the checkpoint has and nobody asked for.
    """

    path: Path
    restored: tuple[str, ...]
    unused: tuple[str, ...]

    def assert_consumed(self) -> RestoreStatus:
        """Raise CheckpointError unless all of the checkpoint was restored; returns the status."""
        if self.unused:
            rest = listed(self.unused)
            raise CheckpointError(f"checkpoint {self.path} also has {rest}, which nothing took")
        return self

    def expect_partial(self) -> RestoreStatus:
        """The status: what is lacking was an error already, and what is beyond is none."""
        return self

    assert_existing_objects_matched = expect_partial


class DTensorCheckpoint:
    """Saves variables and arrays to numbered checkpoints and puts restored ones in their place.

    Args:
        mesh: the mesh of all of them.
        root: a pytree, or an object whose attributes hold them; its names stand at the top.
        checksums: whether saved elements get checksums, which restoring compares.
        **kwargs: DVariables, DTensors, other arrays, numbers and texts, or pytrees and objects that
            hold them. Each is an attribute of the checkpoint, by its keyword; attributes that are
            set later are saved as well.

    Variables are assigned when they are restored; other values are replaced where they are: in a
    dict, list or attribute, or as the checkpoint's own attribute. Every client calls each method.

    Raises:
        CheckpointError: a keyword is taken.
        MeshError: `mesh` is not a Mesh.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
        >>> ckpt = dtensor.DTensorCheckpoint(mesh, x=x, step=7)
        >>> ckpt.save("run")
        '.../run-1'
        >>> ckpt.restore("run-1").restored
        ('x', 'step')
    """

    def __init__(
        self, mesh: AnyMesh, root: Any = None, *, checksums: bool = True, **kwargs: Any
    ) -> None:
        self.mesh = as_mesh(mesh)
        self._names: tuple[str, ...] = ()
        self._root = root
        self._counter = 0
        self._checksums = checksums
        self._saving: Saving | None = None
        for name, value in kwargs.items():
            self._hold(name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") or name == "mesh":
            super().__setattr__(name, value)
        else:
            self._hold(name, value)

    def _hold(self, name: str, value: Any) -> None:
        """Save a value from now on, by the name of an attribute."""
        if name not in self._names:
            if hasattr(self, name):
                raise CheckpointError(
                    f"DTensorCheckpoint cannot hold '{name}', which is its own; use another name"
                )
            self._names += (name,)
        vars(self)[name] = value

    def __repr__(self) -> str:
        held = [*(["root"] if self._root is not None else []), *self._names]
        words = ", ".join([self.mesh.short(), *held, f"save_counter={self._counter}"])
        return f"DTensorCheckpoint({words})"

    @property
    def save_counter(self) -> int:
        """Number of the last checkpoint that `save` wrote or `restore` read; 0 before."""
        return self._counter

    def save(self, path: Any, max_to_keep: int | None = None, wait: bool = True) -> str:
        """Save to `path-1`, `path-2` and so on, after the last that exists; returns that path.

        Args:
            path: path or URL of the checkpoint without the number.
            max_to_keep: how many of the numbered checkpoints to keep; older ones are removed when
                the new one is on disk. None keeps all.
            wait: False returns when the arrays may change; the checkpoint is whole after `wait`,
                which the next call of any method waits for as well.

        Raises:
            CheckpointError: something cannot be saved, or the checkpoint cannot be written.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
            >>> ckpt = dtensor.DTensorCheckpoint(mesh, x=x)
            >>> [ckpt.save("run", max_to_keep=1) for step in range(3)]
            ['.../run-1', '.../run-2', '.../run-3']
        """
        if max_to_keep is not None and (type(max_to_keep) is not int or max_to_keep < 1):
            raise CheckpointError(
                f"max_to_keep is {max_to_keep!r}; it is a positive number or None"
            )
        saving = self._write(series.numbered(path), _COUNTER, max_to_keep, wait)
        self._counter = saving.number
        return saving.path

    def write(self, path: Any, wait: bool = True) -> str:
        """Save to exactly this path, in place of what is there; returns the path.

        Args:
            path: path or URL of the checkpoint.
            wait: as for `save`.

        Raises:
            CheckpointError: something cannot be saved, or the checkpoint cannot be written.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
            >>> dtensor.DTensorCheckpoint(mesh, x=x).write("best")
            '.../best'
        """
        return self._write(series.replaced(series.checked(path)), None, 1, wait).path

    def wait(self) -> None:
        """Return when what was saved with `wait=False` is on disk.

        Raises:
            CheckpointError: it could not be written.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
            >>> ckpt = dtensor.DTensorCheckpoint(mesh, x=x)
            >>> path = ckpt.save("run", wait=False)  # the training goes on
            >>> ckpt.wait()
        """
        if self._saving is not None:
            saving, self._saving = self._saving, None
            saving.wait()

    def restore(self, path: Any) -> RestoreStatus:
        """Restore everything from a checkpoint, and go on counting from its number.

        Nothing is changed unless all of it could be read.

        Raises:
            CheckpointError: there is no such checkpoint, it lacks something, or it is damaged.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
            >>> path = dtensor.DTensorCheckpoint(mesh, x=x).save("run")
            >>> ckpt = dtensor.DTensorCheckpoint(mesh, x=x * 0)
            >>> ckpt.restore(path).restored
            ('x',)
            >>> ckpt.x.sum().item()
            32.0
        """
        info, status = self._read(path)
        self._counter = int(info.plain.get(_COUNTER, self._counter))
        return status

    def read(self, path: Any) -> RestoreStatus:
        """Restore everything from a checkpoint; the next number that `save` takes stays.

        Raises:
            CheckpointError: there is no such checkpoint, it lacks something, or it is damaged.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
            >>> ckpt = dtensor.DTensorCheckpoint(mesh, x=x)
            >>> ckpt.read(ckpt.write("best")).restored
            ('x',)
            >>> ckpt.save_counter
            0
        """
        return self._read(path)[1]

    def _write(
        self, place: series.Series, counter: str | None, max_to_keep: int | None, wait: bool
    ) -> Saving:
        self.wait()
        arrays, plain = self._found()
        self._saving = saving = write_checkpoint(
            place,
            self.mesh,
            [source_of(name, value, self.mesh) for name, value in arrays.items()],
            plain,
            counter=counter,
            least=self._counter + 1,
            max_to_keep=max_to_keep,
            checksums=self._checksums,
        )
        if wait:
            self.wait()
        return saving

    def _read(self, path: Any) -> tuple[CheckpointInfo, RestoreStatus]:
        self.wait()
        place = series.checked(path)
        arrays, plain = self._found()
        targets = {name: target_of(name, value, self.mesh) for name, value in arrays.items()}
        restored, values, info = read_checkpoint(place, self.mesh, targets, plain)

        def put(name: str, old: Any) -> Any:
            return values[name] if is_plain(old) else restored_like(old, restored[name])

        self._transform(put)
        names = (*arrays, *plain)
        rest = [n for n in (*info, *info.plain) if n not in names and n != _COUNTER]
        return info, RestoreStatus(place, names, tuple(rest))

    def _transform(self, visit: Any) -> None:
        if self._root is not None:
            self._root = transform(self._root, "", visit)
        for name in self._names:
            vars(self)[name] = transform(vars(self)[name], name, visit)

    def _found(self) -> tuple[dict[str, Any], dict[str, Plain]]:
        arrays: dict[str, Any] = {}
        plain: dict[str, Plain] = {}

        def note(name: str, value: Any) -> Any:
            if name in arrays or name in plain or name == _COUNTER:
                raise CheckpointError(
                    f"two things would have the name '{name}' in the checkpoint; rename one"
                )
            (plain if is_plain(value) else arrays)[name] = value
            return value

        self._transform(note)
        if not arrays and not plain:
            raise CheckpointError("the checkpoint holds no array, and nothing else to save")
        return arrays, plain
