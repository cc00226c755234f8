"""`bnmodes bench`: speed, and where the time goes."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from bnmodes.bench import results
from bnmodes.cli.options import WITHOUT_DEFAULT, parse
from bnmodes.errors import UsageError
from bnmodes.files import write_json


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    quick: bool = False
    """A smaller set, in about five minutes."""
    out: Annotated[Path | None, WITHOUT_DEFAULT] = None
    """JSON file to write with everything that was measured; without it, none."""
    compare: Annotated[Path | None, WITHOUT_DEFAULT] = None
    """An earlier such file: print the ratios to it, with their noise."""


def bench_command(args: list[str]) -> None:
    options = parse(
        BenchOptions,
        args,
        "bnmodes bench",
        BenchOptions(),
        "Measure decisions a second of each agent, memory, and where the time goes.\n\n"
        "All cases take about 25 minutes on a quiet machine, longer on a busy one.",
    )
    old = results.read(options.compare) if options.compare else None
    if options.out and (options.out.is_dir() or not options.out.parent.is_dir()):
        raise UsageError(f"--out {options.out} is no file in a folder that is there: name another.")
    found: dict = {"machine": results.machine(), "cases": {}}
    failed = []
    print(", ".join(f"{name} {value}" for name, value in found["machine"].items()))
    print(results.HEADER, flush=True)
    for case, measured in results.run_cases(options.quick):
        if isinstance(measured, str):
            failed.append(case.name)
            print(f"{case.name}: {measured}", file=sys.stderr, flush=True)
        else:
            found["cases"][case.name] = measured
            print(results.line(case.name, measured), flush=True)
    from bnmodes.bench.bare import ratios  # imports torch

    found["ratio_to_bare_loop"] = ratios(rounds=4 if options.quick else 15)
    for name, ratio in found["ratio_to_bare_loop"].items():
        print(f"{name}: {ratio:.2f} of a bare PyTorch loop's time")
    if options.out:
        write_json(options.out, found)
    if old is not None:
        print(f"beside {options.compare}:")
        print("\n".join(results.compare(found, old)))
    if failed:
        raise UsageError(f"{', '.join(failed)} could not be measured: the reason is above.")
