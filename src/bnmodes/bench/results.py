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
from bnmodes.execution import has_compiler, processor_name

Measurement = Mapping[str, Any]
PARTS = ("act", "environment", "sample", "forward", "backward", "optimizer", "other")


def run_cases(quick: bool) -> Iterator[tuple[Case, Measurement | str]]:
    """Each case with what was measured, or why it could not be; one that cannot be compiled here is
    left out."""
    for case in CASES:
        if (quick and not case.quick) or (case.compile and not has_compiler()):
            continue
        yield case, _in_own_process(case, seconds=5.0 if quick else 20.0)


def _in_own_process(case: Case, seconds: float) -> Measurement | str:
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
        return done.stderr.strip()[-300:] or f"ended with code {done.returncode}"
    return json.loads(done.stdout.splitlines()[-1])


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": version("torch"),
    }


COLUMNS = (
    f"{'case':50}", f"{'decisions/s':>11}", "  ±", "  first", " memory", "of peak",
    "act/env/sample/forward/backward/optimizer/other", "diagnostics",
)  # fmt: skip
HEADER = f"| {' | '.join(COLUMNS)} |\n|---|{'---:|' * (len(COLUMNS) - 1)}"


def line(name: str, found: Measurement) -> str:
    """One row of the table, which is Markdown's: ± is half the range of the windows; shares are in
    percent of the loop's time, that of diagnostics of a whole run's."""
    of_peak = f"{found['gflops'] / found['matmul_gflops']:.0%}" if "gflops" in found else ""
    cells = [
        name.ljust(len(COLUMNS[0])),
        f"{found['decisions_per_second']:,.1f}",
        f"{found['relative_spread'] / 2:.0%}",
        f"{found['seconds_to_first_update']:.1f} s",
        f"{found['peak_memory_gb']:.2f} GB",
        of_peak,
        "/".join(f"{100 * found['shares'].get(part, 0):.0f}" for part in PARTS),
        f"{100 * found['diagnostics_share']:.1f}",
    ]
    padded = (cell.rjust(len(column)) for cell, column in zip(cells, COLUMNS, strict=True))
    return f"| {' | '.join(padded)} |"


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
        compare(result, result)  # or it would fail when all has been measured
        return result
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError):
        raise UsageError(f"{path} is no result of `bnmodes bench --out`.") from None
