"""What the command lines of all tools have in common."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dtensor.tools import dtensor_opt, dtensor_run

MODULE = """module {
  "dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()
  func.func @main(%a: tensor<6xf32>) -> tensor<6xf32> {
    return %a : tensor<6xf32>
  }
}
"""


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    file = tmp_path / "größe.mlir"
    file.write_text(MODULE)
    return file


@pytest.mark.parametrize("tool", ["dtensor_opt", "dtensor_run", "dtensor_launch"])
def test_a_tool_tells_its_version(tool: str) -> None:
    words = [sys.executable, "-m", f"dtensor.tools.{tool}", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    name = tool.replace("_", "-")
    assert re.fullmatch(rf"{name} \S+ \(jaxlib \S+, Python \S+\)\n", done.stdout)
    assert not done.stderr


@pytest.mark.parametrize("tool", ["dtensor_opt", "dtensor_run", "dtensor_launch"])
def test_closed_streams_are_empty_ones(tool: str) -> None:
    words = f"exec {sys.executable} -m dtensor.tools.{tool} "
    for given, closed in (("--help", "<&- >&-"), ("-", "<&- >&-"), ("--version", ">&-")):
        command = ["sh", "-c", f"{words} {given} {closed}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr
        assert "internal error" not in done.stderr
        if given == "-" and tool != "dtensor_launch":
            assert done.returncode == 1
            assert "error: there is no input: stdin is closed; name a file" in done.stderr


@pytest.mark.parametrize("tool", ["opt", "run"])
def test_a_reader_that_has_gone_is_no_error(tool: str, file: Path) -> None:
    theirs, ours = os.pipe()
    os.close(theirs)
    done = subprocess.run(
        [sys.executable, "-m", f"dtensor.tools.dtensor_{tool}", file],
        stdout=ours,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(ours)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("tool", ["opt", "run"])
@pytest.mark.parametrize("word", ["FILE", "--help"])
def test_output_that_cannot_be_written_is_an_error(tool: str, word: str, file: Path) -> None:
    words = [sys.executable, "-m", f"dtensor.tools.dtensor_{tool}", word.replace("FILE", str(file))]
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"dtensor-{tool}: error: No space left on device\n"


@pytest.mark.parametrize("tool", [dtensor_opt, dtensor_run])
def test_an_interrupt_is_quiet(
    tool: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tool, "_run", interrupt)
    assert tool.run(["x.mlir"]) == 130  # type: ignore[attr-defined]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("tool", ["launch", "opt", "run"])
def test_so_is_one_while_a_command_imports(tool: str) -> None:
    program = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'dtensor.tools.command_line': raise KeyboardInterrupt\n"
        "from dtensor.tools import start\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        f"start.{tool}()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.parametrize("tool", ["opt", "run"])
def test_a_locale_that_lacks_a_character_gets_its_escape(tool: str, file: Path) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    words = [str(file), "--verify" if tool == "run" else "--dtensor-typo"]
    done = subprocess.run(
        [sys.executable, "-m", f"dtensor.tools.dtensor_{tool}", *words],
        capture_output=True,
        env={**os.environ, **ascii_only},
        text=True,
        check=False,
    )
    assert "codec can't encode" not in done.stderr
    if tool == "run":
        assert done.stdout.startswith(r"gr\udcc3\udcb6\udcc3\udc9fe on mesh(x=2): 0 values"), (
            done.stderr
        )


@pytest.mark.parametrize(
    "words",
    [
        ("opt", ""),
        ("opt", "x", "-o", ""),
        ("opt", "x", "--lock", ""),
        ("run", ""),
        ("run", "x", ""),
    ],
)
def test_a_file_without_a_name(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    tool = {"opt": dtensor_opt, "run": dtensor_run}[words[0]]
    assert tool.run(words[1:]) == 1
    assert "the name of the file is empty; - is stdin or stdout" in capsys.readouterr().err
