"""Collectives read out of optimised HLO text, as XLA writes it for each kind of machine."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import dtensor
from dtensor.compiler.targets.hlo import HloCollective, hlo_collectives
from dtensor.compiler.targets.report import target_report
from dtensor.compiler.targets.target import Target

GRID = dtensor.Mesh([("x", 2), ("y", 4)])
GROUPS = "replica_groups={{0,1,2,3},{4,5,6,7}}, use_global_device_ids=true"


def read(*instructions: str, before: str = "") -> tuple[HloCollective, ...]:
    body = "\n".join(f"  {instruction}" for instruction in instructions)
    return hlo_collectives(
        f"HloModule m\n\n{before}\n\nENTRY %main (p: f32[]) -> f32[] {{\n{body}\n}}\n", 8
    )


@pytest.mark.parametrize(
    ("instruction", "kind", "bytes_"),
    [
        (f"%a = f32[8,24]{{1,0}} all-reduce(%f), channel_id=1, {GROUPS}", "all_reduce", 1152),
        (
            "%a = bf16[6]{0} all-gather(%f), replica_groups=[4,2]<=[8], dimensions={0}",
            "all_gather",
            6,
        ),
        (f"ROOT %a = f32[4,24]{{1,0}} reduce-scatter(%f), {GROUPS}", "reduce_scatter", 1152),
        ("%a = pred[16,3]{1,0} all-to-all(%f), replica_groups={}", "all_to_all", 42),
        (
            "%a = s4[16]{0} collective-permute(%f), source_target_pairs={{0,1}}",
            "collective_permute",
            8,
        ),
        (
            "%a = c64[4]{0} collective-broadcast(%f), replica_groups={{0,1}}",
            "collective_broadcast",
            32,
        ),
        # As a TPU writes them: layouts with tiles and memory spaces, several values at once.
        (
            "%a = (f32[16,32]{1,0:T(8,128)S(1)}, /*index=1*/f32[]{:T(128)}) all-reduce(%f, %g), "
            f"channel_id=2, {GROUPS}",
            "all_reduce",
            2 * 0.75 * (2048 + 4),
        ),
    ],
)
def test_each_kind(instruction: str, kind: str, bytes_: float) -> None:
    assert read(instruction) == (HloCollective(kind, bytes_, 1),)


@pytest.mark.parametrize(
    ("start", "kind", "bytes_"),
    [
        ("f32[8,24]{1,0} all-reduce-start(%f)", "all_reduce", 1152),
        ("(f32[4,2]{1,0}, f32[2]{0}) all-reduce-start(%f, %g)", "all_reduce", 60),
        ("((f32[4,2]{1,0}), f32[4,2]{1,0}) all-reduce-start(%f)", "all_reduce", 48),
        ("(f32[16,6]{1,0}, f32[64,6]{1,0}) all-gather-start(%f)", "all_gather", 1152),
        (
            "((f32[3]{0}, s8[4]{0}), (f32[12]{0}, s8[16]{0})) all-gather-start(%f, %g)",
            "all_gather",
            48,
        ),
        ("((f32[16,24]{1,0}), f32[4,24]{1,0}) reduce-scatter-start(%f)", "reduce_scatter", 1152),
        ("((f32[2,24]{0,1}), f32[2,24]{0,1}) all-to-all-start(%f)", "all_to_all", 144),
        (
            "(f32[6]{0}, f32[6]{0}, u32[]{:S(2)}, u32[]{:S(2)}) collective-permute-start(%f)",
            "collective_permute",
            24,
        ),
    ],
)
def test_a_start_and_its_done_are_one(start: str, kind: str, bytes_: float) -> None:
    begin = f"%a = {start}, channel_id=1, {GROUPS}"
    assert read(begin) == (HloCollective(kind, bytes_, 1),)  # it may end in another computation
    name = start.split("(%")[0].split()[-1].removesuffix("-start")
    (found,) = read(begin, f"%d = f32[96]{{0}} {name}-done(%a), {GROUPS}")
    assert found.kind == kind
    assert found.bytes == read(f"%a = f32[96]{{0}} {name}(%f), {GROUPS}")[0].bytes


def test_what_an_async_start_calls_is_counted_once() -> None:
    inner = (
        f"%wrapped (p: f32[8]) -> f32[8] {{\n  ROOT %a = f32[8]{{0}} all-to-all(%p), {GROUPS}\n}}"
    )
    found = read(
        "%s = ((f32[8]), f32[8], u32[]) async-start(%p), calls=%wrapped",
        "%u = ((f32[8]), f32[8], u32[]) async-update(%s), calls=%wrapped",
        "%d = f32[8]{0} async-done(%u), calls=%wrapped",
        before=inner,
    )
    assert found == (HloCollective("all_to_all", 24, 1),)


def test_a_collective_that_a_tpu_spreads_over_fusions_is_one() -> None:
    def fused(name: str, channel: int) -> str:
        gather = f"ROOT %g = f32[32]{{0}} all-gather(%p), channel_id={channel}, {GROUPS}"
        return f"%{name} (p: f32[8]) -> f32[32] {{\n  {gather}\n}}"

    parts = [fused("begin", 17), fused("middle", 17), fused("end", 17), fused("other", 18)]
    found = read(
        "%s = f32[32]{0} fusion(%p), kind=kCustom, calls=%begin",
        "%m = f32[32]{0} fusion(%s), kind=kOutput, calls=%middle",
        "%d = f32[32]{0} fusion(%m), kind=kCustom, calls=%end",
        "%o = f32[32]{0} fusion(%p), kind=kCustom, calls=%other",
        before="\n\n".join(parts),
    )
    assert found == (HloCollective("all_gather", 96, 1),) * 2


@pytest.mark.parametrize(
    ("last", "kind", "bytes_"),
    [
        (
            "ROOT %d = f32[8]{0} dynamic-slice(%r, %at), dynamic_slice_sizes={8}",
            "reduce_scatter",
            96,
        ),
        ("ROOT %d = f32[32]{0} negate(%r)", "all_reduce", 192),
    ],
)
def test_a_fusion_that_keeps_a_slice_of_a_sum_is_a_reduce_scatter(
    last: str, kind: str, bytes_: float
) -> None:
    reduced = f"%r = f32[32]{{0}} all-reduce(%p), channel_id=2, {GROUPS}, to_apply=%add"
    fused = f"%all-reduce-scatter (p: f32[32]) -> f32[8] {{\n  {reduced}\n  {last}\n}}"
    call = "%f = f32[8]{0} fusion(%x), kind=kCustom, calls=%all-reduce-scatter"
    assert read(call, before=fused) == (HloCollective(kind, bytes_, 1),)


BODY = f"""%body (p: (s32[], f32[8])) -> (s32[], f32[8]) {{
  %p = (s32[], f32[8]) parameter(0)
  %one = s32[] constant(1)
  %i = s32[] get-tuple-element(%p), index=0
  %copy = s32[]{{:T(128)S(6)}} copy(%i)
  %next = s32[] add(%copy, %one)
  %x = f32[8] get-tuple-element(%p), index=1
  %sum = f32[8]{{0}} all-reduce(%x), channel_id=1, {GROUPS}
  ROOT %t = (s32[], f32[8]) tuple(%next, %sum)
}}

%cond (p.1: (s32[], f32[8])) -> pred[] {{
  %p.1 = (s32[], f32[8]) parameter(0)
  %end = s32[] constant(7)
  %i.1 = s32[] get-tuple-element(%p.1), index=0
  ROOT %lt = pred[] compare(%i.1, %end), direction=LT
}}
"""
WHILE = "%w = (s32[], f32[8]) while(%init), condition=%cond, body=%body"
INIT = (
    "%zero = s32[] constant(2)",
    "%c = s32[] copy(%zero)",
    "%init = (s32[], f32[8]) tuple(%c, %x)",
)


def trips(*instructions: str, body: str = BODY) -> int | None:
    (found,) = read(*instructions, before=body)
    return found.trip_count


def test_a_loop_runs_as_often_as_xla_wrote_down() -> None:
    known = ', backend_config={"known_trip_count":{"n":"3"},"init":"x"}'
    assert trips(*INIT, WHILE + known) == 3


def test_a_loop_of_a_tpu_runs_as_often_as_its_counter_says() -> None:
    assert trips(*INIT, WHILE) == 5
    assert (
        trips(
            *INIT, WHILE, body=BODY.replace("%one = s32[] constant(1)", "%one = s32[] constant(2)")
        )
        == 3
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("direction=LT", "direction=NE"),
        ("%end = s32[] constant(7)", "%end = s32[] get-tuple-element(%p.1), index=0"),
        ("%next = s32[] add(", "%next = s32[] multiply("),
        ("%one = s32[] constant(1)", "%one = s32[] constant(-1)"),
        ("ROOT %lt = pred[] compare(", "ROOT %lt = pred[] fusion("),
        ("tuple(%next, %sum)", "fusion(%next, %sum)"),
    ],
)
def test_a_loop_that_does_not_say_is_of_unknown_length(old: str, new: str) -> None:
    assert old in BODY
    assert trips(*INIT, WHILE, body=BODY.replace(old, new)) is None


def test_a_loop_that_starts_anywhere_is_of_unknown_length() -> None:
    assert trips("%init = (s32[], f32[8]) tuple(%p, %x)", WHILE) is None
    assert trips("%init = (s32[], f32[8]) parameter(0)", WHILE) is None


def test_branches_are_read_too() -> None:
    def branch(name: str) -> str:
        return f"%{name} (p: f32[8]) -> f32[8] {{\n  ROOT %a = f32[8] all-reduce(%p), {GROUPS}\n}}"

    found = read(
        "%c = f32[8]{0} conditional(%i, %x, %x), branch_computations={%one, %two}",
        before=branch("one") + "\n\n" + branch("two"),
    )
    assert [c.kind for c in found] == ["all_reduce"] * 2


def test_text_without_an_entry_has_no_collectives() -> None:
    assert hlo_collectives("", 8) == ()


@dataclass(frozen=True)
class Program:
    """A compiled program, as far as the report reads one."""

    text: str
    collectives: tuple[HloCollective, ...]
    target: Target | None = None
    mesh: dtensor.Mesh = GRID

    def as_text(self) -> str:
        return self.text

    def memory_analysis(self) -> Any:
        sizes = {"argument": 2000, "output": 30, "alias": 10, "temp": 400}
        return SimpleNamespace(**{f"{name}_size_in_bytes": size for name, size in sizes.items()})


def test_the_report_is_two_tables() -> None:
    text = "ENTRY %main (p: f32[]) -> f32[] {\n  %a = bf16[4]{0} collective-permute(%p)\n}\n"
    planned = (HloCollective("halo_exchange", 16, 3), HloCollective("all_gather", 1024, None))
    report = target_report(Program(text, planned, Target("tpu", "v5e", (2, 4))))
    assert (
        report
        == """\
tpu:v5e:2x4, mesh x=2 x y=4

collectives         planned  bytes  in the HLO  bytes
all_gather                1  1,024           0      0
collective_permute        1     48           1      8
together                  2  1,072           1      8
A loop of unknown length counts as one turn.

memory of one device                         bytes
arguments                                    2,000
results                                         30
results in the memory of arguments              10
temporaries                                    400
peak                                       unknown
there is, on v5e                    16,911,433,728"""
    )


def test_the_report_says_what_a_device_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target("tpu", "v5e", (2, 4))
    sizes = {"peak_memory_in_bytes": target.info.memory_bytes + 1}
    monkeypatch.setattr(Program, "memory_analysis", lambda _: SimpleNamespace(**sizes))
    assert "A device does not hold that" in target_report(Program("", (), target))
    sizes["peak_memory_in_bytes"] -= 1
    assert "A device does not hold that" not in target_report(Program("", (), target))


def test_a_program_for_this_machine_has_a_report_too() -> None:
    mesh = dtensor.create_mesh([("x", 8)])
    total = dtensor.jit(jnp.sum, in_layouts=dtensor.Layout(["x"], mesh))
    compiled = total.lower(jax.ShapeDtypeStruct((64,), jnp.float32)).compile()
    assert compiled.target is None
    lines = compiled.target_report().splitlines()
    assert lines[0] == "this machine, mesh x=8"
    assert lines[3].split() == ["all_reduce", "1", "7", "1", "7"]
    assert not any("there is" in line for line in lines)
