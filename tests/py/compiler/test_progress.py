"""Signs of life of long compilations."""

from __future__ import annotations

import io
import sys
import threading
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import dtensor
from dtensor.compiler.targets import executable
from dtensor.compiler.targets.progress import progress


class Stream(io.StringIO):
    """A stream that can be waited for."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal, self.written = terminal, threading.Semaphore(0)

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> int:
        count = super().write(text)
        self.written.release()
        return count

    def wait(self, times: int) -> None:
        for _ in range(times):
            assert self.written.acquire(timeout=60)


def test_a_log_gets_lines_while_it_goes_on() -> None:
    log = Stream(terminal=False)
    with progress("compiling step for tpu:v5e:2x4", log, pause=0.001):
        log.wait(2)
    first, second, *_ = log.getvalue().splitlines()
    assert first == second == "dtensor: compiling step for tpu:v5e:2x4, 0 s so far"


@pytest.mark.parametrize("has_rich", [True, False])
def test_a_terminal_gets_one_line_that_goes_away(
    has_rich: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_rich:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    terminal = Stream(terminal=True)
    with progress("compiling [x] for tpu:v5e:2x4", terminal, pause=0.001):
        terminal.wait(3)
    text = terminal.getvalue()
    assert "compiling [x] for tpu:v5e:2x4" in text
    assert text.rstrip().endswith(("\x1b[K", "\x1b[2K", "\x1b[?25h"))  # the line is erased


@pytest.mark.parametrize("terminal", [True, False])
def test_what_is_soon_done_says_nothing(terminal: bool) -> None:
    stream = Stream(terminal)
    with progress("compiling step for tpu:v5e:2x4", stream, pause=3600):
        pass
    assert stream.getvalue() == ""


def test_a_compilation_for_a_target_reports_to_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The CPU stands for a machine that is not here, and its compiler is made to wait.
    devices = jax.devices()
    monkeypatch.setattr(executable, "_DEVICES", {"tpu": lambda target: devices})
    executable._devices.cache_clear()
    executable.target_mesh.cache_clear()
    said = Stream(terminal=False)
    monkeypatch.setattr(sys, "stderr", said)

    def quick(what: str) -> Any:
        return progress(what, pause=0.001)

    monkeypatch.setattr(executable, "progress", quick)
    compile = jax.stages.Lowered.compile

    def slow(self: Any, *args: Any) -> Any:
        said.wait(1)
        return compile(self, *args)

    monkeypatch.setattr(jax.stages.Lowered, "compile", slow)
    mesh = dtensor.Mesh([("x", 8)])
    step = dtensor.jit(jnp.sin, in_layouts=dtensor.Layout(["x"], mesh))
    step.lower(jax.ShapeDtypeStruct((8,), jnp.float32), target="tpu:v5e:2x4").compile()
    executable._devices.cache_clear()
    executable.target_mesh.cache_clear()
    assert said.getvalue().startswith("dtensor: compiling sin for tpu:v5e:2x4, 0 s so far\n")
    assert capsys.readouterr().out == ""
