"""Random programs against one device, for some time: `make fuzz SECONDS=600`.

    python -m tests.py.fuzz --seconds 600 [--first SEED]

Programs are made from seeds, one after another, and planned by one of three costs in turn. Each
runs in a process that a failure of XLA may end; what was running then is told too. A program that
differs or fails is made smaller and printed as a program to be run by itself; all are kept in
build/fuzz. Exit status 1 says that there was one.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

FOLDER = Path("build/fuzz")
_QUICK = "--xla_backend_optimization_level=0 --xla_force_host_platform_device_count=16"
_EACH = 60  # programs that one process runs: jax keeps what it compiled
_LONGEST = 600.0  # seconds that one program may take, made small; then the process ends
_LOOKED_INTO = 8  # every so many programs, each operation is compared, whatever the results


def main() -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=0, help="run so many here, in this process")
    options = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    if options.count:
        return work(options.first, options.count, time.monotonic() + options.seconds)
    return supervise(options.first, time.monotonic() + options.seconds)


def supervise(first: int, end: float) -> int:
    """Start processes that run programs until the time is over."""
    counts: Counter[str] = Counter()
    environment = {**os.environ, "XLA_FLAGS": _QUICK, "JAX_PLATFORMS": "cpu"}
    seed = first
    while time.monotonic() < end:
        left = end - time.monotonic()
        words = ["--first", str(seed), "--count", str(_EACH), "--seconds", str(left)]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.py.fuzz", *words],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        for line in process.stdout:
            word, _, rest = line.partition(" ")
            if word == "#":
                kind, number = rest.split()
                counts[kind] += 1
                seed = int(number) + 1
                if kind == "drift":
                    print(f"seed {number}: drift", flush=True)
            else:
                print(line, end="", flush=True)
        if process.wait() != 0:  # a signal, or faulthandler where nothing comes of a program
            counts["ended the process"] += 1
            print(f"the process ended with status {process.returncode} at seed {seed}:", flush=True)
            print((FOLDER / "current.py").read_text(encoding="utf-8"), flush=True)
            seed += 1
    total = sum(counts.values())
    told = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    print(f"{total} programs, seeds {first} to {seed - 1}: {told}")
    return 1 if counts["wrong"] + counts["crash"] + counts["ended the process"] else 0


def work(first: int, count: int, end: float) -> int:
    """Run programs in this process."""
    from tests.py.fuzz.judge import judge, smallest
    from tests.py.fuzz.programs import COSTS, MESHES, SIXTEEN, program

    costs = list(COSTS)
    for seed in range(first, first + count):
        if time.monotonic() > end:
            break
        made = replace(program(seed, (*MESHES, SIXTEEN)), cost=costs[seed % len(costs)])
        faulthandler.dump_traceback_later(_LONGEST, exit=True)
        (FOLDER / "current.py").write_text(made.script(), encoding="utf-8")
        look = seed % _LOOKED_INTO == 0
        verdict = judge(made, look)
        if verdict.is_defect:
            made = smallest(made, verdict.kind, look)
            script = made.script()
            (FOLDER / f"{verdict.kind}_{seed}.py").write_text(script, encoding="utf-8")
            print(f"seed {seed}, {verdict.kind}:\n{judge(made, look).text}\n{script}\n")
        for text in verdict.fallbacks:
            with open(FOLDER / "fallbacks.txt", "a", encoding="utf-8") as file:
                file.write(f"{text}\n")
        print(f"# {verdict.kind} {seed}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
