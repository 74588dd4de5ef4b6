"""Every pass of our own, by name. Strings, so that reading the table imports no pass."""

from __future__ import annotations

import importlib
from typing import Final

from dtensor.passes.base import Pass

PASSES: Final[dict[str, str]] = {
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
    module_name, _, class_name = PASSES[name].partition(":")
    found = getattr(importlib.import_module(module_name), class_name)
    if not (isinstance(found, type) and issubclass(found, Pass)) or found.name != name:
        raise AssertionError(f"{PASSES[name]} is not the pass {name}")
    return found


def load_passes() -> None:
    """Import every pass of the table, so that the first compilation need not."""
    for name in PASSES:
        pass_class(name)
