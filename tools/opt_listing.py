"""`dtensor-opt --list-passes`: each pass, what it does, and its options."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterator

from dtensor.passes import cxx
from dtensor.passes.base import options_of
from dtensor.passes.pipelines import PIPELINES, SUMMARIES
from dtensor.passes.registry import PASSES, pass_class

_WIDTH = 98


def listing() -> str:
    """The text that `--list-passes` prints."""
    return "\n".join([*_own(), *_pipelines(), *_cxx()])


def _own() -> Iterator[str]:
    yield "Passes:"
    for name in PASSES:
        cls = pass_class(name)
        yield f"\n  {name}"
        for paragraph in inspect.cleandoc(cls.__doc__ or "").split("\n\n"):
            yield _indented(paragraph, 6)
        for option in options_of(cls):
            head = f"{option.name} : {option.type} = {option.default}"
            yield _indented(f"{head}  {option.help}".rstrip(), 6, hanging=4)


def _pipelines() -> Iterator[str]:
    yield "\nPipelines:"
    for name, stages in PIPELINES.items():
        yield f"\n  {name}\n      {SUMMARIES[name]}"
        width = max(len(stage.text) for stage in stages)
        for stage in stages:
            yield f"      {stage.text:<{width}}  {stage.reason}"


def _cxx() -> Iterator[str]:
    yield "\nC++ passes of jaxlib, by name and with their own options in {...}:"
    for anchor, what in (
        (cxx.ANY, "run on the module or inside func.func(...)"),
        (cxx.MODULE, "run on the module"),
        (cxx.FUNC, "run on each function; func.func(...) may be left out"),
    ):
        names = [name for name, needed in cxx.CXX_PASSES.items() if needed == anchor]
        yield f"\n  {what}:"
        yield _indented(" ".join(names), 6)


def _indented(text: str, by: int, hanging: int = 0) -> str:
    return textwrap.fill(
        " ".join(text.split()),
        width=_WIDTH,
        initial_indent=" " * by,
        subsequent_indent=" " * (by + hanging),
        break_on_hyphens=False,
    )
