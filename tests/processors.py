"""The numeric tests, as on other processors: `make test-processors`.

PyTorch and oneDNN choose their kernels by the processor's instruction set, and their results then
differ by rounding. Two environment variables make them believe in an older processor than this one;
no variable makes it newer, so only the sets that it has are run.

The oldest set runs all tests marked `numeric` that are not slow, with one thread and seed 1; the
others, those that state what an agent learns, with two threads and seeds 2 and 3. `--learning` runs
only the latter, in every set; `--all` runs all of them in every set with one and two threads and
all three seeds, and what is slow too; it takes hours. Runs that are compared with themselves on one
machine are not marked `numeric`.
"""

import os
import subprocess
import sys
import time
from itertools import product

from torch.backends.cpu import get_cpu_capability

SETS = {"DEFAULT": "SSE41", "AVX2": "AVX2", "AVX512": "AVX512_CORE"}
"""PyTorch's name of each instruction set, oldest first, and oneDNN's."""
SEEDS = (1, 2, 3)
"""Seed 0 is that of `make test`."""


def here() -> list[str]:
    """The sets of this processor; another architecture has only its own."""
    best = get_cpu_capability()
    return list(SETS)[: list(SETS).index(best) + 1] if best in SETS else ["DEFAULT"]


def spread(sets: list[str], first: str) -> list[tuple[str, int, tuple[int, ...], str]]:
    """Name, threads, seeds and tests of each set; `first` are those of the oldest."""
    return [
        (name, 1 + (place > 0), (SEEDS[place],), f"{'learns' if place else first} and not slow")
        for place, name in enumerate(sets)
    ]


def passes(name: str, threads: int, seeds: tuple[int, ...], tests: str) -> bool:
    setting = {"ATEN_CPU_CAPABILITY": name.lower(), "ONEDNN_MAX_CPU_ISA": SETS[name]}
    print(f"\n{setting}, threads: {threads}, seeds: {seeds}", flush=True)
    setting["JAXTYPING_DISABLE"] = "1"  # shapes are the same on every processor
    setting["OMP_WAIT_POLICY"] = "passive"  # threads of two workers wait without taking a core
    options = ["-m", tests, "--threads", threads]
    options += ["--seeds", ",".join(map(str, seeds)), "-n", 2, "--dist", "worksteal"]
    command = [sys.executable, "-m", "pytest", *map(str, options)]
    began = time.monotonic()
    code = subprocess.run(command, env=os.environ | setting).returncode
    print(f"{time.monotonic() - began:.0f} s", flush=True)
    return code == 0


if __name__ == "__main__":
    sets = here()
    chosen = spread(sets, first="learns" if "--learning" in sys.argv else "numeric")
    if "--all" in sys.argv:
        chosen = [(name, threads, SEEDS, "numeric") for name, threads in product(sets, (1, 2))]
    failed = [one for one in chosen if not passes(*one)]
    sys.exit(f"failed: {failed}" if failed else 0)
