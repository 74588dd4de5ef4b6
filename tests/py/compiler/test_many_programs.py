"""Many compilations in one process: nothing reads the memory of a module that is gone."""

from pathlib import Path

import pytest

from tests.py.overwritten import assert_survives


@pytest.mark.long
def test_two_hundred_compilations_of_different_modules() -> None:
    assert_survives(Path(__file__).with_name("many_programs.py"))
