"""The walker of a program: what stands where, how often it runs, what is tied together."""

from dtensor.dialect.attributes import read_meshes
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import terminator
from dtensor.dialect.names import ARG_ATTRS, RES_ATTRS
from dtensor.passes import functions as borders
from dtensor.passes.functions import main_function
from dtensor.passes.program import captured, predicate, ties, walk
from tests.py.passes.run_passes import MESH, counted_loop, function, parsed

LOOP = function("(%a: tensor<8x4xf32>) -> tensor<8x4xf32>", counted_loop(end=7, step=3))
NESTED = function(
    "(%a: tensor<8x4xf32>, %q: tensor<i1>) -> tensor<8x4xf32>",
    counted_loop(
        body="""
        %y = "stablehlo.if"(%q) ({
          %t = stablehlo.tanh %c : tensor<8x4xf32>
          stablehlo.return %t : tensor<8x4xf32>
        }, {
          %e = stablehlo.exponential %c : tensor<8x4xf32>
          stablehlo.return %e : tensor<8x4xf32>
        }) : (tensor<i1>) -> tensor<8x4xf32>"""
    ),
)
SUM = function(
    "(%a: tensor<8x4xf32>, %z: tensor<f32>) -> tensor<8xf32>",
    """%0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [1]
        : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>""",
)


def short(name: str) -> str:
    return name.split(".")[-1]


def test_operations_come_in_program_order_with_their_trips() -> None:
    with parsed(LOOP) as module:
        found = [(short(name), scope.trips) for _, name, scope in walk(main_function(module))]
    assert found[3:] == [
        ("while", 1),
        ("compare", 3),  # 0, 3 and 6 are below 7
        ("return", 3),
        ("tanh", 3),
        ("add", 3),
        ("return", 3),
        ("return", 1),
    ]


def test_a_loop_of_unknown_length_has_no_trips_inside() -> None:
    with parsed(LOOP.replace("compare LT", "compare NE")) as module:
        trips = {short(name): scope.trips for _, name, scope in walk(main_function(module))}
    assert trips["tanh"] is None
    assert trips["while"] == 1


def test_scopes_know_what_is_around_them() -> None:
    with parsed(NESTED) as module:
        scopes = {short(name): scope for _, name, scope in walk(main_function(module))}
    then, otherwise = scopes["tanh"], scopes["exponential"]
    assert then is not otherwise
    assert then.parent is otherwise.parent is scopes["if"]
    assert scopes["if"].parent is scopes["while"]
    assert scopes["while"].parent is None
    assert then.number < otherwise.number


def test_bodies_of_reductions_are_entered_on_request_only() -> None:
    with parsed(SUM) as module:
        main = main_function(module)
        assert [short(name) for _, name, _ in walk(main)] == ["reduce", "return"]
        assert [short(name) for _, name, _ in walk(main, combiners=True)] == [
            "reduce",
            "add",
            "return",
            "return",
        ]


def test_an_operation_may_be_erased_while_walking() -> None:
    with parsed(LOOP) as module:
        main = main_function(module)
        for op, name, _ in walk(main):
            if name == "stablehlo.tanh":
                op.results[0].replace_all_uses_with(op.operands[0])
                op.erase()
        assert "tanh" not in str(module)


def test_a_loop_ties_what_it_carries() -> None:
    with parsed(LOOP) as module:
        found = {name: op for op, name, _ in walk(main_function(module))}
        loop = found["stablehlo.while"]
        condition, body = (region.blocks[0] for region in loop.regions)
        counter, carried = ties(loop)
        assert carried.sites == ((loop, 1), (terminator(body), 1))
        assert carried.values == (condition.arguments[1], body.arguments[1], loop.results[1])
        assert counter.sites[0] == (loop, 0)
        assert predicate(loop) == (terminator(condition), 0)


def test_a_branch_ties_what_its_regions_yield() -> None:
    with parsed(NESTED) as module:
        found = {name: op for op, name, _ in walk(main_function(module))}
        branch = found["stablehlo.if"]
        (tie,) = ties(branch)
        assert tie.sites == tuple((terminator(region.blocks[0]), 0) for region in branch.regions)
        assert tie.values == (branch.results[0],)
        assert predicate(branch) == (branch, 0)
        assert ties(found["stablehlo.tanh"]) == []


def test_a_barrier_ties_each_operand_to_its_result() -> None:
    text = function(
        "(%a: tensor<8x4xf32>, %b: tensor<2xf32>) -> tensor<8x4xf32>",
        """%0:2 = stablehlo.optimization_barrier %a, %b : tensor<8x4xf32>, tensor<2xf32>
        return %0#0 : tensor<8x4xf32>""",
    )
    with parsed(text) as module:
        barrier = next(op for op, _, _ in walk(main_function(module)))
        assert [(t.sites, t.values) for t in ties(barrier)] == [
            (((barrier, k),), (barrier.results[k],)) for k in range(2)
        ]


def test_what_regions_read_from_outside() -> None:
    with parsed(NESTED) as module:
        main = main_function(module)
        arguments = list(main.regions[0].blocks[0].arguments)
        loop = next(op for op, name, _ in walk(main) if name == "stablehlo.while")
        assert captured(loop, arguments) == [arguments[1]]


def test_layouts_of_a_function_are_read_as_they_were_written() -> None:
    rows = Layout(["x", None], MESH)
    with parsed(LOOP) as module:
        main = main_function(module)
        meshes = {MESH.symbol: MESH, **read_meshes(module)}
        assert borders.boundary_layouts(main, ARG_ATTRS, meshes) == [None]
        borders.set_boundary_layouts(main, ARG_ATTRS, [rows])
        borders.set_boundary_layouts(main, ARG_ATTRS, [None])  # what stands there stays
        assert borders.boundary_layouts(main, ARG_ATTRS, meshes) == [rows]
        assert borders.boundary_layouts(main, RES_ATTRS, meshes) == [None]
        borders.drop_boundary_layouts(main)
        assert ARG_ATTRS not in main.attributes
