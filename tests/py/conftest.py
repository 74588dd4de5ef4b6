"""Eight virtual CPU devices for every test, chosen before jax is imported."""

import gc
import os
import sys

import hypothesis
import pytest

from tests.py.xla_flags import QUICK

if "jax" in sys.modules:
    raise RuntimeError(
        "jax was imported before tests/py/conftest.py could ask for 8 virtual devices; "
        "run pytest without the plugin that imports it"
    )

# The last flag of a name wins, so whatever else the user has set stays in force.
DEVICES_FLAG = "--xla_force_host_platform_device_count=8"
os.environ["XLA_FLAGS"] = f"{QUICK} {os.environ.get('XLA_FLAGS', '')} {DEVICES_FLAG}".strip()
os.environ["JAX_PLATFORMS"] = "cpu"

# The same examples in every run; the first example of a property may wait for XLA to compile.
hypothesis.settings.register_profile("dtensor", derandomize=True, deadline=None)
hypothesis.settings.load_profile("dtensor")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every", type=int, default=1, metavar="N", help="run every Nth test only")


@pytest.hookimpl(trylast=True)  # of those that marks leave
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items[:] = items[:: config.getoption("--every")]


def pytest_collection_finish() -> None:
    """Spare the garbage collector all that has been imported, which stays to the end."""
    gc.collect()
    gc.freeze()
