"""Programs of the documentation, changed a little as a reader would, still do what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.py.docs.blocks import DOCS, run

UNEVEN = {"(128, 16)": "(100, 16)", "(128, 4)": "(100, 4)", '("data", 8)': '("data", 6)'}
ADAFACTOR = {"adam(1e-3)": "adafactor(1e-3)", "rules = [": 'rules = [(r"/v_(row|col)/", jax.P()),'}
VARIANTS = {
    "data-parallel": [UNEVEN, {"np.float32": "np.float16"}],
    "decode": [{"4096, 4, 16": "1999, 3, 16"}],
    "experts": [{"EXPERTS, CAPACITY = 8, 32": "EXPERTS, CAPACITY = 6, 5"}],
    "fsdp": [{"adam(1e-3)": "lamb(1e-3)"}, ADAFACTOR],
    "stencils": [{"(128, 64)": "(127, 63)", '("rows", 4)': '("rows", 3)'}],
    "tensor-parallel": [{"(64, 256)": "(64, 250)", "(256, 64)": "(250, 64)"}],
    "zero1": [{"adam(1e-3)": "adamw(1e-3)", '("data", 8)': '("data", 3)'}],
}


@pytest.mark.parametrize(
    ("recipe", "changes"),
    [(recipe, changes) for recipe, variants in VARIANTS.items() for changes in variants],
)
def test_a_recipe_is_changed(recipe: str, changes: dict[str, str], tmp_path: Path) -> None:
    page = (DOCS / "recipes" / f"{recipe}.md").read_text(encoding="utf-8")
    text = page.partition("```python\n")[2].partition("```")[0]
    for old, new in changes.items():
        assert old in text, f"the recipe has no {old}"
        text = text.replace(old, new)
    (tmp_path / "variant.py").write_text(text, encoding="utf-8")
    printed = run(["python", "variant.py"], tmp_path)
    said = [line for line in printed.splitlines() if line.startswith("as on one device")]
    assert said, printed
    assert all("True" in line and "False" not in line for line in said), printed
