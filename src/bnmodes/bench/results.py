"""All cases, one after the other; the table of a result, and two results beside each other."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bnmodes.bench.cases import CASES, Case
from bnmodes.errors import UsageError
from bnmodes.execution import has_compiler

Measurement = Mapping[str, Any]
PARTS = ("act", "environment", "sample", "forward", "backward", "optimizer", "other")


def run_cases(quick: bool) -> Iterator[tuple[Case, Measurement]]:
    """Each case with what was measured; one that cannot be compiled here is left out."""
    for case in CASES:
        if (quick and not case.quick) or (case.compile and not has_compiler()):
            continue
        yield case, _in_own_process(case, seconds=5.0 if quick else 20.0)


def _in_own_process(case: Case, seconds: float) -> Measurement:
    task = json.dumps({"case": asdict(case), "seconds": seconds})
    threads = {} if case.all_cores else {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "bnmodes.bench.measure"],
        input=task,
        capture_output=True,
        text=True,
        env=os.environ | threads,
    )
    if done.returncode:
        raise UsageError(f"{case.name} could not be measured: {done.stderr.strip()[-300:]}")
    return json.loads(done.stdout.splitlines()[-1])


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": version("torch"),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


HEADER = (
    f"{'case':56} {'decisions/s':>11} {'±':>4} {'first':>6} {'memory':>7} {'of peak':>7}  "
    "act env sample forward backward optim other diag"
)


def line(name: str, found: Measurement) -> str:
    """One row of the table; ± is half the range of the windows, shares are in percent."""
    of_peak = (
        f"{100 * found['gflops'] / found['matmul_gflops']:6.0f}%"
        if "gflops" in found
        else "      –"
    )
    shares = "/".join(f"{100 * found['shares'].get(part, 0):.0f}" for part in PARTS)
    return (
        f"{name:56} {found['decisions_per_second']:11,.1f} "
        f"{50 * found['relative_spread']:3.0f}% {found['seconds_to_first_update']:5.1f}s "
        f"{found['peak_memory_gb']:5.2f}GB {of_peak}  {shares}  "
        f"{100 * found['diagnostics_share']:.1f}"
    )


def compare(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[str]:
    """For each case of both: new over old decisions a second, and the noise of that ratio."""
    lines = []
    for name, found in new["cases"].items():
        before = old["cases"].get(name)
        if before is None:
            continue
        ratio = found["decisions_per_second"] / before["decisions_per_second"]
        noise = (found["relative_spread"] + before["relative_spread"]) / 2
        lines.append(f"{name:56} {ratio:5.2f}× ± {noise * ratio:.2f}")
    return lines or ["no case is in both results"]


def read(path: Path) -> dict[str, Any]:
    try:
        result = json.loads(path.read_text())
        if not isinstance(result["cases"], dict):
            raise KeyError
        return result
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(f"{path} is no result of `bnmodes bench --out`.") from None
