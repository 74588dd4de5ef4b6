"""Signs of life of long compilations."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import dtensor
from dtensor.compiler import driver, stages
from dtensor.compiler.progress import phases, progress
from dtensor.compiler.targets import executable


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
    assert text.isascii()
    assert text.rstrip().endswith(("\x1b[K", "\x1b[2K", "\x1b[?25h"))  # the line is erased


@pytest.mark.parametrize("terminal", [True, False])
def test_what_is_soon_done_says_nothing(terminal: bool) -> None:
    stream = Stream(terminal)
    with progress("compiling step for tpu:v5e:2x4", stream, pause=3600):
        pass
    assert stream.getvalue() == ""


# Phases of what is planned and compiled here.


def lowered() -> dtensor.Lowered:
    layout = dtensor.Layout(["x"], dtensor.create_mesh([("x", 8)]))
    return dtensor.jit(jnp.sin, in_layouts=layout).lower(jax.ShapeDtypeStruct((8,), jnp.float32))


def soon(what: str) -> Any:
    return phases(what, pause=0.001)


def test_a_terminal_is_told_the_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Stream(terminal=True)
    monkeypatch.setattr(sys, "stderr", terminal)
    with phases("planning step", pause=0.001) as begin:
        begin("dtensor-[import]")
        terminal.wait(3)
    assert "planning step: dtensor-[import], 0 s so far" in terminal.getvalue()


def test_planning_and_compiling_tell_a_terminal_what_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal, plan, load = Stream(terminal=True), driver.compile_module, jax.stages.Lowered.compile

    def slow_plan(**given: Any) -> Any:
        given["before"]("dtensor-propagate")
        terminal.wait(3)
        return plan(**given)

    def slow_load(*args: Any) -> Any:
        terminal.wait(3)
        return load(*args)

    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(stages, "phases", soon)
    monkeypatch.setattr(driver, "compile_module", slow_plan)
    monkeypatch.setattr(jax.stages.Lowered, "compile", slow_load)
    lowered().compile()
    text = terminal.getvalue()
    assert "planning sin: dtensor-propagate, 0 s so far" in text
    assert "compiling sin with XLA, 0 s so far" in text
    assert text.rstrip().endswith(("\x1b[K", "\x1b[2K", "\x1b[?25h"))


def test_every_pass_is_a_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str] = []
    monkeypatch.setattr(stages, "phases", lambda what: contextlib.nullcontext(begun.append))
    assert lowered().wire_bytes == 0
    assert begun[-1] == "dtensor-report-memory"
    assert "dtensor-propagate" in begun


@pytest.mark.parametrize("stream", [Stream(terminal=False), None])
def test_a_log_is_not_told_the_phases(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(threading.Thread, "start", None)  # nobody could say anything
    with phases("planning step", pause=0.001) as begin:
        begin("dtensor-import")
    assert stream is None or stream.getvalue() == ""


def test_an_environment_variable_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTENSOR_PROGRESS", "0")
    monkeypatch.setattr(threading.Thread, "start", None)
    monkeypatch.setattr(sys, "stderr", Stream(terminal=True))
    for within in (progress("compiling"), phases("planning")):
        with within:
            pass


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
