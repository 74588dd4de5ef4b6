"""`compiled.report`: the page says what the plan says, and a browser shows it without a network."""

from __future__ import annotations

import pickle
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
from dtensor.compiler.report.facts import facts_of
from dtensor.compiler.report.lines import source_files
from dtensor.compiler.report.markup import Html, join, table, tag
from dtensor.compiler.report.page import report_html
from dtensor.compiler.summary import groups_of
from dtensor.dialect.layout import Layout
from dtensor.passes.cost.units import quantity, seconds_text

MESH = dtensor.Mesh.abstract([("x", 2), ("y", 4)])
ROWS = Layout(["x", None], MESH)
LINKING = {"src", "href", "srcset", "action", "data", "poster"}
VOID = {"meta", "br", "hr", "img", "link", "input"}


class Reader(HTMLParser):
    """A page as a tree would have it: every element closed, in the right order."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[tuple[tuple[str, ...], str]] = []
        self.feed(page)
        self.close()
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append((tuple(self.open), data))

    def attributes(self, name: str) -> list[str]:
        return [v for _, attrs in self.elements if (v := attrs.get(name)) is not None]

    def said(self, *inside: str) -> str:
        return " ".join(
            text for path, text in self.text if not inside or (path[-1:] and path[-1] in inside)
        )


def layer(params: Any, x: Any) -> Any:
    return x + jnp.tanh(x @ params["up"]) @ params["down"]


def loss(layers: Any, x: Any) -> Any:
    for params in layers:
        x = layer(params, x)
    return (x**2).mean()


@cache
def lowered(spec: str = "tensor") -> dtensor.Lowered:
    specs: dict[str, Any] = {
        "tensor": ([None, "y"], ["y", None]),
        "fully": (["x", "y"], ["y", "x"]),
    }
    up, down = (Layout(dims, MESH) for dims in specs[spec])
    shapes = {"up": (16, 64), "down": (64, 16)}
    one = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}
    step = dtensor.jit(jax.value_and_grad(loss), in_layouts=([{"up": up, "down": down}] * 3, ROWS))
    return step.lower([one] * 3, jax.ShapeDtypeStruct((8, 16), jnp.float32))


@cache
def page(spec: str = "tensor") -> Reader:
    return Reader(report_html(lowered(spec)))


def totals(reader: Reader) -> dict[str, float]:
    return {
        str(attrs["data-total"]): float(str(attrs["data-value"]))
        for _, attrs in reader.elements
        if "data-total" in attrs
    }


# What it says.


def test_totals_are_those_of_the_plan() -> None:
    plan, found = lowered(), totals(page())
    (record,) = [r for r in plan.ledger["records"] if r["kind"] == "plan"]
    assert plan.memory is not None
    assert found == {
        "sent": plan.wire_bytes,
        "collectives": len(plan.collectives),
        "operations": plan.local_flops,
        "held at the peak, planned": plan.memory.peak_bytes,
        "planned to communicate": record["communication"],
        "planned to compute": record["seconds"] - record["communication"],
    }
    assert 0 < record["communication"] < record["seconds"]
    text = page().said("dd")
    assert quantity(plan.wire_bytes, "B") in text
    assert quantity(plan.local_flops, "FLOP") in text


def test_a_compiled_program_has_xlas_memory_too() -> None:
    mesh = dtensor.create_mesh([("x", 2), ("y", 4)])
    jitted = dtensor.jit(lambda a: a.sum(axis=0), in_layouts=Layout(["x", None], mesh))
    compiled = jitted.lower(np.ones((4, 6), np.float32)).compile()
    found = totals(Reader(report_html(compiled)))
    assert found["arguments, by XLA"] == compiled.memory_analysis().argument_size_in_bytes
    assert found["sent"] == compiled.wire_bytes > 0


def test_every_byte_is_sent_by_some_line_and_the_line_is_shown() -> None:
    files = source_files([facts_of(lowered())])
    lines = [line for file in files for line in file.lines]
    assert sum(line.sent[0] for line in lines) == lowered().wire_bytes
    memory = lowered().memory
    assert memory is not None
    held = sum(tensor.bytes for tensor in memory.tensors if tensor.location)
    assert sum(line.held[0] for line in lines) == held > 0
    assert files[0].name == "test_report_page.py"
    (busy,) = [line for line in lines if "jnp.tanh" in line.text and line.number > 0]
    assert busy.sent[0] > 0
    assert busy.text == '    return x + jnp.tanh(x @ params["up"]) @ params["down"]'
    numbers = [line.number for line in files[0].lines]
    assert busy.number - 2 in numbers
    assert busy.number + 2 in numbers
    assert busy.text in page().said("td")


SUM = """func.func @main(%a: tensor<8x4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.reduce(%a init: %0) applies stablehlo.add across dimensions = [0]
      : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""


def test_lines_of_mlir_are_shown_and_where_there_is_no_file_their_numbers(tmp_path: Path) -> None:
    (tmp_path / "sum.mlir").write_text(SUM)
    for source, name, text in (
        (tmp_path / "sum.mlir", "sum.mlir", SUM.splitlines()[2]),
        (SUM, "<string>", ""),
    ):
        plan = dtensor.lower_mlir(source, mesh=MESH, in_layouts=[ROWS])
        (file,) = source_files([facts_of(plan)])
        (sent,) = [line for line in file.lines if any(line.sent)]
        assert (file.name, sent.number, sent.text) == (name, 3, text)
        assert name in Reader(report_html(plan)).said("code")


def test_collectives_are_grouped_and_sorted_with_line_reason_and_what_could_be_instead() -> None:
    groups = groups_of(lowered()._plan().collectives)
    rows = [int(first) for first in page().attributes("data-first")]
    assert rows == [group.first for group in groups]
    text = " ".join(page().said().split())
    for group in groups:
        assert group.reason in text
        assert f"{group.members[0].kind} over {', '.join(group.members[0].mesh_axes)} of" in text
        assert group.members[0].location in text
    assert "instead dot_general could give it as [{}, {}], for " in page().said("pre")


def test_arguments_and_results_are_pictures_and_equal_layers_one() -> None:
    titles = [text for path, text in page().text if path[-2:] == ("svg", "title")]
    assert titles == [
        "Mesh(x=2, y=4, abstract)",
        """layers[*]['down']: [{"y"}, {}]""",
        """layers[*]['up']: [{}, {"y"}]""",
        'x: [{"x"}, {}]',
        "result[0]: []",
        *titles[5:],
    ]
    assert "3x " in page().said("figcaption")


def test_memory_at_the_peak_names_arguments_and_lines() -> None:
    plan = lowered()
    assert plan.memory is not None
    facts = facts_of(plan)
    held = {one.name: one for one in facts.held}
    up = held["argument layers[*]['up']: float32 16x16"]
    assert (up.count, up.bytes, up.location) == (3, 3 * 16 * 16 * 4, "")
    assert facts.peak_bytes == plan.memory.peak_bytes
    assert sum(one.bytes for one in facts.held) <= facts.peak_bytes
    assert [one.bytes for one in facts.held] == sorted((o.bytes for o in facts.held), reverse=True)
    assert any(one.location.startswith("test_report_page.py:") for one in facts.held)
    assert f"{quantity(plan.memory.peak_bytes, 'B')} together" in page().said("h3")


def test_of_very_many_rows_the_small_ones_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dtensor.compiler.report.collectives._SHOWN", 2)
    monkeypatch.setattr("dtensor.compiler.report.page._TENSORS", 3)
    monkeypatch.setattr("dtensor.compiler.report.arrays._DRAWN", 2)
    reader = Reader(report_html(lowered()))
    facts = facts_of(lowered())
    size = quantity(sum(group.bytes for group in facts.groups[2:]), "B")
    assert len(reader.attributes("data-first")) == 2
    assert f"{len(facts.groups) - 2} smaller groups send {size}" in reader.said("p")
    assert f"{len(facts.held) - 3} smaller ones" in reader.said("code")
    assert len(reader.attributes("viewbox")) == 1 + 2 + 2  # mesh, arguments, results
    assert """[{"x"}, {}]""" in reader.said("code")  # of x, which is not drawn
    assert quantity(sum(one.bytes for one in facts.held[3:]), "B") in reader.said("span")


def test_warnings_come_first() -> None:
    def f(a: Any) -> Any:
        for _ in range(3):
            a = jax.pure_callback(np.sin, jax.ShapeDtypeStruct(a.shape, a.dtype), a)
        return a

    reader = Reader(report_html(dtensor.jit(f, in_layouts=ROWS).lower(np.ones((4, 8), np.float32))))
    said = [
        (path[-1], text) for path, text in reader.text if path and path[-1] in ("li", "dd", "h2")
    ]
    assert said[0][0] == "li"
    assert said[0][1].startswith("3x fallback: stablehlo.custom_call @")
    assert "No warnings:" in page().said("p")


def test_a_program_that_sends_nothing() -> None:
    plan = dtensor.jit(lambda a: a, in_layouts=ROWS).lower(np.ones((4, 8)))
    reader = Reader(report_html(plan))
    assert "0 B in 0 collectives" in reader.said("h3")
    assert "No line sends anything" in reader.said("p")


def test_a_pipeline_without_a_memory_report() -> None:
    options = dtensor.CompileOptions(
        pipeline="builtin.module(dtensor-import,dtensor-propagate,dtensor-insert-relayouts,"
        "dtensor-expand,dtensor-report-cost,dtensor-lower)"
    )
    jitted = dtensor.jit(lambda a: a.sum(), in_layouts=ROWS, options=options)
    reader = Reader(report_html(jitted.lower(np.ones((4, 8)))))
    assert "not reported by this pipeline" in reader.said("h3")


# Two programs.


def test_two_programs_stand_side_by_side() -> None:
    one, two = lowered(), lowered("fully")
    reader = Reader(report_html(one, two))
    assert totals(reader)["sent"] == one.wire_bytes
    others = [
        float(v) for t, a in reader.elements if a.get("class") == "other" and (v := a["data-value"])
    ]
    assert two.wire_bytes in others
    assert two.local_flops in others
    for line in dtensor.compare(one, two).splitlines():
        assert line in reader.said("pre")
    files = source_files([facts_of(one), facts_of(two)])
    for i, plan in enumerate((one, two)):
        assert sum(line.sent[i] for f in files for line in f.lines) == plan.wire_bytes
    titles = [text for path, text in reader.text if path[-2:] == ("svg", "title")]
    assert titles[1:3] == [
        """layers[*]['down']: [{"y"}, {}]""",
        """layers[*]['down']: [{"y"}, {"x"}]""",
    ]
    assert titles.count('x: [{"x"}, {}]') == 1  # it is the same in both
    heads = reader.said("h3")
    for name, plan in (("first", one), ("second", two)):
        assert (
            f"The {name}: {quantity(plan.wire_bytes, 'B')} in {len(plan.collectives)} coll" in heads
        )


def test_layers_that_only_one_program_lays_out_alike_are_told_apart() -> None:
    up, other = Layout([None, "y"], MESH), Layout(["y", None], MESH)

    def plan(first: Layout) -> dtensor.Lowered:
        jitted = dtensor.jit(lambda ws: [w + 1 for w in ws], in_layouts=([first, up, up],))
        return jitted.lower([jax.ShapeDtypeStruct((8, 16), jnp.float32)] * 3)

    reader = Reader(report_html(plan(up), plan(other)))
    captions = "".join(t for path, t in reader.text if "figcaption" in path).split(" float32 8x16")
    assert captions[:2] == ["ws[0]", "2x ws[*]"]
    asides = [text for path, text in reader.text if path[-2:] == ("figure", "p")]
    assert asides == ["in the first:", "in the second:"] * 2  # of one argument and one result


def test_what_only_one_program_has_is_said() -> None:
    def plan(*names: str) -> dtensor.Lowered:
        given = {name: jax.ShapeDtypeStruct((8, 16), jnp.float32) for name in names}
        return dtensor.jit(lambda d: d["a"] * 2, in_layouts=({n: ROWS for n in names},)).lower(
            given
        )

    asides = [
        text
        for path, text in Reader(report_html(plan("a"), plan("a", "b"))).text
        if path[-2:] == ("figure", "p")
    ]
    assert asides == ["in the first:", "not there", "in the second:"]


# Markup.


def named(name: str) -> Any:
    def function(a: Any) -> Any:
        return (a @ a.T).sum()

    function.__name__ = function.__qualname__ = name
    return function


def test_names_are_escaped_everywhere(tmp_path: Path) -> None:
    file = tmp_path / "a & b <i>.py"
    file.write_text("def <script>alert(1)</script>\nreturn (a @ a.T).sum() # </td> &amp;\n")
    source = "\ndef function(**arrays):\n    a, = arrays.values()\n    return (a @ a.T).sum()\n"
    space: dict[str, Any] = {}
    exec(compile(source, str(file), "exec"), space)
    function = space["function"]
    function.__name__ = function.__qualname__ = "<b>"
    file.write_text("<i>\n</pre>\n<td>\nreturn <b>a & 'b'</b> &lt; \"\n")
    name = "<img src=x onerror=1>"
    jitted = dtensor.jit(function, in_layouts={name: ROWS})
    plan = jitted.lower(**{name: jax.ShapeDtypeStruct((8, 4), jnp.float32)})
    text = report_html(plan, plan)
    reader = Reader(text)
    assert "<b> on mesh(x=2, y=4, abstract)" in reader.said("h1")
    assert "a & b <i>.py" in reader.said("code")
    assert "return <b>a & 'b'</b> &lt; \"" in reader.said("td")
    assert any(name in found for found in (reader.said("code"), reader.said("b")))
    tags = {tag for tag, _ in reader.elements}
    assert not tags & {"i", "img"}
    small = Reader(plan._repr_html_())
    assert "<b> on mesh(x=2, y=4, abstract)" in small.said("code")
    assert not {tag for tag, _ in small.elements} & {"i", "img", "b", "script"}


def test_markup_escapes_what_is_not_markup() -> None:
    assert tag("td", "<&>", class_='"', data_x=1, open=True, id=None) == (
        '<td class="&quot;" data-x="1" open>&lt;&amp;&gt;</td>'
    )
    assert join(["<", Html("<br>")], " & ") == "&lt; &amp; <br>"
    assert table(["a", "n#"], [tag("tr", tag("td", "1"))]).count('class="number"') == 1


@pytest.mark.parametrize(
    ("value", "text"), [(2.5, "2.5 s"), (0.0121, "12.1 ms"), (3e-6, "3 us"), (4e-9, "4 ns")]
)
def test_times_have_the_unit_that_fits(value: float, text: str) -> None:
    assert seconds_text(value) == text


def test_the_same_plan_gives_the_same_page() -> None:
    assert report_html(lowered()) == report_html(lowered())


def test_a_plan_from_another_process_gives_the_same_page() -> None:
    again = pickle.loads(pickle.dumps(lowered()))
    assert report_html(again) == report_html(lowered())


def test_notebooks_show_totals_and_the_largest_collectives() -> None:
    reader = Reader(lowered()._repr_html_())
    assert quantity(lowered().wire_bytes, "B") in reader.said("td")
    assert str(lowered()).splitlines()[-1] in reader.said("pre")
    assert not {tag for tag, _ in reader.elements} & {"style", "script", "link", "img"}


def test_it_asks_for_nothing_from_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "one.html"
    lowered().report(path)
    text = path.read_text(encoding="utf-8")
    reader = Reader(text)
    assert not {tag for tag, _ in reader.elements} & {"link", "img", "iframe", "object", "base"}
    named = [
        value for _, attrs in reader.elements for key, value in attrs.items() if key in LINKING
    ]
    assert all(str(value).startswith("#") for value in named)
    assert not re.search(r"@import|url\(|\b(?:fetch|import|XMLHttpRequest|WebSocket)\b", text)
