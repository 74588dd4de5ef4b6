"""Every pass of our own, by name, and those that users register.

Ours are strings, so that reading the table imports no pass.
"""

from __future__ import annotations

import importlib
import re
from typing import Final, TypeVar

from dtensor.dialect.errors import CompileError
from dtensor.passes.base import Pass, options_of
from dtensor.passes.cxx import CXX_PASSES
from dtensor.passes.pipelines import PIPELINES

_P = TypeVar("_P", bound=type[Pass])

PASSES: Final[dict[str, str | type[Pass]]] = {
    "dtensor-import": "dtensor.passes.importing.import_module:ImportPass",
    "dtensor-find-forms": "dtensor.passes.forms.find:FindFormsPass",
    "dtensor-fuse-cuts": "dtensor.passes.cuts.fuse:FuseCutsPass",
    "dtensor-split-transforms": "dtensor.passes.split_transforms:SplitTransformsPass",
    "dtensor-pad-uneven": "dtensor.passes.uneven.pad:PadUnevenPass",
    "dtensor-propagate": "dtensor.passes.propagation.propagate:PropagatePass",
    "dtensor-verify-plan": "dtensor.passes.verify_plan:VerifyPlanPass",
    "dtensor-insert-relayouts": "dtensor.passes.relayout.insert:InsertRelayoutsPass",
    "dtensor-optimize-relayouts": "dtensor.passes.relayout.optimize:OptimizeRelayoutsPass",
    "dtensor-expand": "dtensor.passes.expansion.expand:ExpandPass",
    "dtensor-join-transforms": "dtensor.passes.join_transforms:JoinTransformsPass",
    "dtensor-optimize-collectives": "dtensor.passes.collectives.optimize:OptimizeCollectivesPass",
    "dtensor-widen-reductions": "dtensor.passes.collectives.widen:WidenReductionsPass",
    "dtensor-gather-again": "dtensor.passes.collectives.gather_again:GatherAgainPass",
    "dtensor-report-cost": "dtensor.passes.reports.cost:ReportCostPass",
    "dtensor-combine-collectives": "dtensor.passes.collectives.combine:CombineCollectivesPass",
    "dtensor-lower": "dtensor.passes.lowering.lower:LowerPass",
    "dtensor-outline": "dtensor.passes.lowering.outline:OutlinePass",
    "dtensor-report-memory": "dtensor.passes.reports.memory:ReportMemoryPass",
    "dtensor-keep-annotations": "dtensor.passes.importing.keep_annotations:KeepAnnotationsPass",
    "dtensor-inline": "dtensor.passes.inline_calls:InlinePass",
    "dtensor-drop-layouts": "dtensor.passes.drop_layouts:DropLayoutsPass",
    "dtensor-print-rules": "dtensor.passes.ops.print_rules:PrintRulesPass",
    "dtensor-verify": "dtensor.passes.verify_plan:VerifyPass",
}


def pass_class(name: str) -> type[Pass]:
    """The class of the pass `name`, which must be in the table."""
    entry = PASSES[name]
    if not isinstance(entry, str):
        return entry
    module_name, _, class_name = entry.partition(":")
    found = getattr(importlib.import_module(module_name), class_name)
    if not (isinstance(found, type) and issubclass(found, Pass)) or found.name != name:
        raise AssertionError(f"{PASSES[name]} is not the pass {name}")
    return found


_OPTION_TYPES: Final = ("int", "bool", "float", "str")


def register_pass(cls: _P) -> _P:
    """Let pipelines name a pass of one's own: a decorator of its class.

    A later one replaces an earlier one of its name, as when a cell of a notebook runs again.

    Raises:
        CompileError: no pass or no dataclass, a name that is malformed or taken, an option that
            has no default or is of another type.
    """
    if not (isinstance(cls, type) and issubclass(cls, Pass)):
        raise CompileError(f"{cls!r} is no pass; derive a class from dtensor.passes.base.Pass")
    name = getattr(cls, "name", None)
    if not (isinstance(name, str) and re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name)):
        raise CompileError(f"{cls.__name__}.name is {name!r}; write it as 'count-collectives'")
    if isinstance(PASSES.get(name), str) or name in PIPELINES or name in CXX_PASSES:
        raise CompileError(f"{cls.__name__}.name is '{name}', which is one of dtensor's; rename it")
    if "__dataclass_fields__" not in vars(cls):
        raise CompileError(f"{cls.__name__} is no dataclass; put @dataclass(frozen=True) before it")
    for option in options_of(cls):
        written = f"option '{option.name.replace('-', '_')}' of {cls.__name__}"
        if not option.has_default:
            raise CompileError(f"{written} has no default; give it one")
        if option.type not in _OPTION_TYPES:
            raise CompileError(f"{written} is of {option.type}; give {', '.join(_OPTION_TYPES)}")
    PASSES[name] = cls
    return cls


def registered() -> tuple[type[Pass], ...]:
    """The passes that users registered, in order."""
    return tuple([entry for entry in PASSES.values() if not isinstance(entry, str)])


def is_registered(name: str) -> bool:
    """Whether a pass of this name is one that a user registered."""
    return not isinstance(PASSES.get(name, ""), str)


def load_passes() -> None:
    """Import every pass of the table, so that the first compilation need not."""
    for name in PASSES:
        pass_class(name)
