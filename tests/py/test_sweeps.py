"""The cases of sweeps that `make test` runs."""

import itertools

from tests.py.sweeps import EVERY, chosen

GRID = {
    f"test[{mesh}-{rows}-{dtype}]": {("mesh", mesh), ("rows", rows), ("dtype", dtype)}
    for mesh, rows, dtype in itertools.product(["8", "2x4", "3x2", "5"], "1 5 8 13".split(), "fich")
}


def test_every_value_of_every_parameter_is_met() -> None:
    cases = chosen(GRID)
    assert len(cases) == -(-len(GRID) // EVERY) == 4
    assert set.union(*(GRID[case] for case in cases)) == set.union(*GRID.values())


def test_they_do_not_depend_on_the_order() -> None:
    assert chosen(dict(reversed(GRID.items()))) == chosen(GRID)


def test_of_few_cases_one_runs() -> None:
    for count in (1, 2, EVERY):
        assert len(chosen(dict(itertools.islice(GRID.items(), count)))) == 1
