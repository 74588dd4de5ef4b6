"""Running a program in a process of its own, in which what reads freed memory dies for certain."""

import os
import subprocess
import sys
from pathlib import Path

# glibc overwrites what is freed, and at once. Elsewhere the programs run, and may not notice.
_OVERWRITE_FREED = {
    "MALLOC_PERTURB_": "165",
    "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0",
}


def assert_survives(program: Path) -> None:
    """Run a file of Python; fail with what it wrote last, unless it ends well."""
    run = subprocess.run(
        [sys.executable, program],
        env={**os.environ, **_OVERWRITE_FREED},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, f"exit status {run.returncode}: {run.stderr[-2000:]}"
