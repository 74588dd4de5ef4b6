"""Arrays that a program took the buffers of."""

from pathlib import Path

import pytest

from tests.py.overwritten import assert_survives


@pytest.mark.long
def test_no_call_with_an_array_that_is_gone_ends_the_process() -> None:
    assert_survives(Path(__file__).with_name("donated.py"))
