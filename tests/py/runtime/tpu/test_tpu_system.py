"""Starting the TPU system, and what is said where there is none."""

from typing import Any

import jax
import pytest

import dtensor.tpu
from dtensor.dialect.errors import DTensorError, NotFoundError
from dtensor.runtime.tpu import system
from dtensor.tpu import initialize_tpu_system
from tests.py.runtime.tpu.slices import tpu_slice

SLICE = tpu_slice([4, 2, 1, 2])


@pytest.fixture
def tpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that drives one slice of TPUs."""
    monkeypatch.setattr(system, "devices_of_type", lambda kind: {"TPU": SLICE}[kind])


@pytest.mark.usefixtures("tpus")
@pytest.mark.parametrize("resolver", [None, "", "local"])
def test_the_tpu_system_says_its_topology(resolver: str | None) -> None:
    topology = initialize_tpu_system(resolver)
    assert topology == dtensor.tpu.topology_of(SLICE)
    assert initialize_tpu_system() == topology


def test_without_tpus_it_says_what_jax_has() -> None:
    with pytest.raises(NotFoundError, match=r"found no TPUs: jax has 8 CPU devices\. Run on") as e:
        initialize_tpu_system()
    assert isinstance(e.value, DTensorError)
    assert "\n" not in str(e.value)


def test_without_any_device_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("unable to initialize backend 'tpu'\nand more")

    monkeypatch.setattr(jax, "devices", lambda *platform: fail())
    with pytest.raises(NotFoundError, match=r"jax cannot start any device \(unable to init.*'\)\."):
        initialize_tpu_system()


def test_inside_a_traced_function_it_is_an_error() -> None:
    def traced(x: Any) -> Any:
        initialize_tpu_system()
        return x

    with pytest.raises(RuntimeError, match=r"was called inside a function that jax is tracing; "):
        jax.jit(traced)(1.0)
    with pytest.raises(RuntimeError, match=r"was called inside a function"):
        jax.make_jaxpr(traced)(1.0)
    with pytest.raises(RuntimeError, match=r"was called inside a function"):
        jax.grad(traced)(1.0)


@pytest.mark.parametrize("resolver", ["my-tpu", "grpc://host:8470", 3, object(), ["local"]])
def test_other_resolvers_are_refused(resolver: Any) -> None:
    with pytest.raises(TypeError, match=r"^cluster_resolver is .*; give None or 'local'.*_JOBS"):
        initialize_tpu_system(resolver)


def test_the_public_names_have_docstrings() -> None:
    assert sorted(dtensor.tpu.__all__) == dtensor.tpu.__all__
    for name in dtensor.tpu.__all__:
        assert getattr(dtensor.tpu, name).__doc__, name
