"""orbax-checkpoint, which reads and writes the files: loaded when it is first needed."""

from __future__ import annotations

import asyncio
import importlib
import logging
import re
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax

from dtensor.dialect.errors import CheckpointError

ARRAYS = "arrays"  # folder of a checkpoint in which orbax keeps the elements
ITEM = "dtensor"  # and the one in which it keeps what is said about them
_REMEDY = "install it with pip install 'orbax-checkpoint>=0.12.5,<0.13'"  # as pyproject.toml says
CHUNK_BYTES = 16 * 2**20  # a reader of another layout reads whole chunks, so they are not large


def orbax() -> Any:
    """The module `orbax.checkpoint`.

    Raises:
        CheckpointError: it is not installed, or in a release that has other parts.
    """
    try:
        module = importlib.import_module("orbax.checkpoint")
    except ImportError as error:
        raise CheckpointError(
            f"checkpoints need orbax-checkpoint, which cannot be imported ({error}); {_REMEDY}"
        ) from None
    _add_checksums()
    _finish_what_is_begun()
    return module


@cache
def _add_checksums() -> None:
    """Let arrays in orbax's Zarr 3 have a CRC-32C of each chunk, which is compared on reading.

    Orbax (0.12) has no option for Zarr's codecs, and restores a flipped bit as another value.
    """
    utils: Any = importlib.import_module("orbax.checkpoint._src.serialization.tensorstore_utils")
    plain = getattr(utils, "_build_zarr3_metadata", None)
    if plain is None:
        version = importlib.import_module("orbax.checkpoint").__version__
        raise CheckpointError(
            f"checkpoints need another release of orbax-checkpoint than {version}; {_REMEDY}"
        )

    def summed(*args: Any, **kwargs: Any) -> Any:
        metadata = plain(*args, **kwargs)
        (sharding,) = metadata["codecs"]
        sharding["configuration"]["codecs"].append({"name": "crc32c"})
        return metadata

    utils._build_zarr3_metadata = summed


@cache
def _finish_what_is_begun() -> None:
    """Let orbax close an event loop when nothing waits in it any more.

    Orbax (0.12) closes it at the first error; each piece that is still being read then calls it
    from a thread of tensorstore, and Python writes a traceback.
    """
    utils: Any = importlib.import_module("orbax.checkpoint._src.asyncio_utils")
    plain = utils.run_sync

    async def all_of(work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await work
        except Exception:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*others, return_exceptions=True)
            raise

    utils.run_sync = lambda work: plain(all_of(work))


def array_handler(clients: Sequence[int], checksums: bool = True) -> Any:
    """What reads and writes the arrays, for a mesh that these processes drive.

    The first replica of a shard is what is written, by the process that has it: replicas are not
    compared anywhere, and pieces of several of them need not fit together.
    """
    ocp = orbax()
    arrays = ocp.type_handlers.ArrayHandler(
        primary_host=clients[0], use_replica_parallel=False, enable_write_sharding_file=False
    )
    return ocp.PyTreeCheckpointHandler(
        use_compression=False,  # weights shrink by less than a tenth, for half the speed
        use_zarr3=checksums,
        multiprocessing_options=_processes(clients),
        type_handler_registry=ocp.type_handlers.create_type_handler_registry((jax.Array, arrays)),
    )


def manager(series: Any, clients: Sequence[int], max_to_keep: int | None, checksums: bool) -> Any:
    """What writes checkpoints of a series together with the other clients, and removes old ones."""
    ocp = orbax()
    options = ocp.CheckpointManagerOptions(
        max_to_keep=max_to_keep,
        step_name_format=series,
        create=False,  # it would wait for all processes
        save_root_metadata=False,
        # The folder is there when saving has begun, so that another save takes another number.
        async_options=ocp.AsyncOptions(create_directories_asynchronously=False),
        multiprocessing_options=_processes(clients),
    )
    handlers = {ARRAYS: array_handler(clients, checksums), ITEM: ocp.JsonCheckpointHandler()}
    return ocp.CheckpointManager(series.root, options=options, item_handlers=handlers)


def _processes(clients: Sequence[int]) -> Any:
    # Named processes meet at a barrier of the coordination service, which ends with an error when
    # one of them is gone; unnamed ones would meet in a collective, which does not.
    options = orbax().options.MultiprocessingOptions
    if jax.process_count() == 1:
        return options()
    return options(
        primary_host=clients[0],
        active_processes=set(clients),
        barrier_sync_key_prefix="dtensor-" + "-".join(map(str, clients)),
    )


@contextmanager
def quiet() -> Iterator[None]:
    """Keep orbax and its event loops from logging; what goes wrong is raised, as one error.

    Of several clients the one where something goes wrong waits for the others first, for up to 20
    minutes (orbax 0.12), so that its errors are logged as well.
    """
    least = logging.ERROR if jax.process_count() > 1 else logging.CRITICAL + 1
    loggers = [logging.getLogger("absl"), logging.getLogger("asyncio")]

    def drop(record: logging.LogRecord) -> bool:
        is_theirs = "orbax" in record.pathname or "asyncio" in record.pathname
        return record.levelno >= least or not is_theirs

    for logger in loggers:
        logger.addFilter(drop)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(drop)


def reason(error: BaseException) -> str:
    """The first line of what an error goes back to."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else type(error).__name__
    return re.split(r" \[(source locations|tensorstore_spec)", text)[0].rstrip(":.; ")
