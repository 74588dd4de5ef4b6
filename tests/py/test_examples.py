"""The examples and the README's program, run as a reader would run them."""

import os
import re
from pathlib import Path

import pytest

from tests.py import fresh

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute")


def environment() -> dict[str, str]:
    """A reader's environment: of what conftest.py sets, only what XLA optimises stays."""
    found = os.environ | {"PYTHONPATH": str(ROOT)}
    found.pop("JAX_PLATFORMS", None)
    flags = found.get("XLA_FLAGS", "").split()
    found["XLA_FLAGS"] = " ".join(flag for flag in flags if "device_count" not in flag)
    return found


def run(*command: str, status: int = 0) -> str:
    """What a program prints; it must end with this status and write nothing to stderr."""
    done = fresh.run(command, env=environment())
    assert done.returncode == status, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def source_lines(text: str, file: str) -> set[str]:
    """The lines of `file` that locations in the text name."""
    lines = (EXAMPLES / file).read_text(encoding="utf-8").splitlines()
    return {lines[int(n) - 1].strip() for n in re.findall(rf"{re.escape(file)}:(\d+)", text)}


def test_matmul_says_why_there_is_an_all_reduce() -> None:
    text, mlir = run("examples/matmul.py").split("\nmatmul.mlir")
    for part, file in (text, "matmul.py"), (mlir, "matmul.mlir"):
        assert "(16, 12), (8, 12) on each of 8 devices" in part
        assert "collective 0: all_reduce over y of f32 8x12, 576 bytes per device, once" in part
        assert "collective 1" not in part
        (line,) = source_lines(part, file)
        assert "a @ b" in line or "dot_general" in line


def test_mlp_trains_as_on_one_device() -> None:
    text = run("examples/mlp.py")
    steps = re.findall(r"loss ([\d.]+), on one device ([\d.]+)", text)
    first, last = ([float(loss) for loss in pair] for pair in steps)
    for pair in (first, last):
        assert abs(pair[0] - pair[1]) < 1e-5  # f32 sums over 8 shards, 100 steps
    assert last[0] < 0.2 * first[0]
    assert set(re.findall(r"collective \d+: (\w+) over (\w+)", text)) == {("all_reduce", "data")}


def test_training_with_data_lowers_the_loss() -> None:
    text = run("examples/train_with_data.py")
    assert "prefetch=2, 15 batches" in text
    assert '[\'x\']: float32[64,16] [{"batch"}, {"features"}]' in text
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", text)]
    assert len(losses) == 10
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.slow
def test_gpt_runs_as_on_one_device_and_names_its_own_lines() -> None:
    text = run("examples/train_gpt.py", "--steps", "4")
    assert re.search(r"largest difference from one device: \d\.\de-0[78] of the loss", text)
    table = text[text.index("collectives of one step") : text.index("planned wire bytes")]
    rows = re.findall(r"^(\w+) +([\w, ]+?) +([\d,]+) +(\d+) +(\S+:\d+:\d+)", table, re.MULTILINE)
    assert len(rows) > 5
    assert len(rows) == len(re.findall(r"^[a-z]+_", table, re.MULTILINE))
    for kind, axes, size, times, line in rows:
        assert kind in KINDS
        assert set(axes.split(", ")) <= {"data", "model"}
        assert int(size.replace(",", "")) > 0
        assert int(times) in (1, 4)  # the layers are a loop
        assert line.startswith("train_gpt.py:")
    assert any("optimizer.update" in line for line in source_lines(table, "train_gpt.py"))


@pytest.mark.long
@pytest.mark.slow
def test_gpt_on_a_mesh_that_does_not_divide_it() -> None:
    text = run("examples/train_gpt.py", "--steps", "2", "--model", "3")
    assert "mesh(data=2, model=3)" in text
    assert "largest difference from one device" in text


def test_gpt_says_what_it_takes() -> None:
    text = run("examples/train_gpt.py", "--help")
    assert "Trains a small character-level GPT" in text
    for option in ("--steps", "--seed", "--data", "--model", "--explain"):
        assert option in text


def fenced(language: str, after: str) -> tuple[str, str]:
    """The first block of this language after a heading of the README, and the one that follows."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = text[text.index(f"\n## {after}\n") :]
    match = re.search(rf"```{language}\n(.*?)```.*?```\w*\n(.*?)```", text, re.DOTALL)
    assert match is not None
    return match.group(1), match.group(2)


def test_the_program_of_the_readme_prints_what_the_readme_says(tmp_path: Path) -> None:
    program, output = fenced("python", "An example")
    script = tmp_path / "layer.py"
    script.write_text(program, encoding="utf-8")
    runner = (
        f"import runpy, sys; sys.path.insert(0, {str(ROOT)!r}); runpy.run_path({str(script)!r})"
    )
    assert run("-c", runner) == output
