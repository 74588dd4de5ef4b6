"""Eight virtual CPU devices for every test, chosen before jax is imported."""

import argparse
import gc
import os
import sys

import hypothesis
import pytest

from tests.py import sweeps
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


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a count; give 1 or more")
    return int(text)


def pytest_addoption(parser: pytest.Parser) -> None:
    # Written --every=N: of two words, N is taken for a path while this file is not yet read.
    parser.addoption(
        "--every", type=_count, default=1, metavar="N", help="run every Nth test only (--every=N)"
    )
    parser.addoption(
        "--sweeps",
        choices=["whole", "some"],
        default="whole",
        help="run all cases of a test over many layouts, sizes or types, or some (--sweeps=some)",
    )


@pytest.hookimpl(trylast=True)  # of those that marks leave
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    cases = sweeps.left_out(items) if config.getoption("--sweeps") == "some" else set()
    left = [item for item in items if item.nodeid not in cases][:: config.getoption("--every")]
    left_out = set(items) - set(left)
    items[:] = left
    if left_out:  # pytest counts them at the end
        config.hook.pytest_deselected(items=list(left_out))


def pytest_collection_finish() -> None:
    """Spare the garbage collector all that has been imported, which stays to the end.

    It looks at the rest a tenth as often: what jax has compiled stays for long too.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 20, 40)
