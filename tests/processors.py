"""The numeric tests, as on other processors: `make test-processors`.

PyTorch and oneDNN choose their kernels by the processor's instruction set, and their results then
differ by rounding. Two environment variables make them believe in an older processor than this one;
no variable makes it newer, so only the sets that it has are run. Each set also gets its own seed of
the tests that state learning, and the newest one two threads. That is a sample of all combinations;
`--all` runs every one of them, and learning on MinAtar too. Left out are the actor-critics' runs on
MinAtar, which take too long, and runs that are compared with themselves on one machine.
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


def passes(name: str, threads: int, seeds: tuple[int, ...], tests: str) -> bool:
    setting = {"ATEN_CPU_CAPABILITY": name.lower(), "ONEDNN_MAX_CPU_ISA": SETS[name]}
    print(f"\n{setting}, threads: {threads}, seeds: {seeds}", flush=True)
    setting["JAXTYPING_DISABLE"] = "1"  # shapes are the same on every processor
    options = ["-m", tests, "--threads", threads]
    options += ["--seeds", ",".join(map(str, seeds))]
    options += ["-n", 2 // threads, "--dist", "worksteal"]  # more would wait for each other
    command = [sys.executable, "-m", "pytest", *map(str, options)]
    began = time.monotonic()
    code = subprocess.run(command, env=os.environ | setting).returncode
    print(f"{time.monotonic() - began:.0f} s", flush=True)
    return code == 0


if __name__ == "__main__":
    sets = here()
    if "--all" in sys.argv:
        settings = [(name, threads, SEEDS, "numeric") for name, threads in product(sets, (1, 2))]
    else:
        # The newest set is the one of `make test`: there only learning is tried, with two threads.
        settings = [
            (name, 1, SEEDS[i :: len(sets)], "numeric and not slow")
            for i, name in enumerate(sets[:-1])
        ]
        settings.append((sets[-1], 2, SEEDS[len(sets) - 1 :: len(sets)], "learns and not slow"))
    failed = [setting for setting in settings if not passes(*setting)]
    sys.exit(f"failed: {failed}" if failed else 0)
