"""`make test-faults`: hundreds of faults on purpose, and what became of the results.

python tests/faults/campaign.py [PART ...]
"""

import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from bnmodes.runs.loop import train
from bnmodes.studies.registry import STUDIES
from bnmodes.studies.results import run_path
from faults import bad_input, files, kills, signals
from helpers.atari_specs import atari_specs
from helpers.run_specs import make_spec
from helpers.small_study import small_study

SPEC = make_spec("minatar/breakout", "bn-batch")
STUDY = small_study(total_decisions=150)
BAD = (
    "lost or changed", "lost", "damaged", "left over", "doubled", "failed", "not one sentence",
    "made anew", "silently wrong", "refused without a name", "tracebacks", "changed files",
    "half outputs", "signals lost",
)  # fmt: skip


def damaged_results(place: Path) -> Counter:
    STUDIES["small"] = STUDY
    for run in STUDY.runs:
        train(run.spec, run_path(place / "whole", run), show_progress=False)
    return bad_input.try_damaged_files(place / "whole", place, 150, seed=2)


def command_lines(place: Path) -> Counter:
    os.chdir(place)
    return bad_input.try_command_lines(place, 1000, seed=2)


PARTS: dict[str, Callable[[Path], Counter]] = {
    "runs killed": lambda place: kills.kill_runs(place, 150, seed=2),
    "Atari runs killed": lambda place: kills.kill_runs(place, 25, 2, atari_specs(), 6),
    "launchers killed": lambda place: kills.kill_studies(place, STUDY, 40, seed=2),
    "signals at start-up": lambda place: signals.interrupt_starts(place, 24, seed=2),
    "disk full": lambda place: files.fill_the_disk(
        SPEC, place, [2**n for n in range(6, 21)] + [3 * 2**n for n in range(6, 18)]
    ),
    "real disk full": lambda place: files.fill_a_real_disk(SPEC, place, [64, 300, 900, 1500, 2500]),
    "folders": lambda place: files.read_only(SPEC, place) + files.disappear(SPEC, place, 10, 2),
    "files damaged": lambda place: files.damage_files(SPEC, place, 120, seed=2),
    "damaged files read": damaged_results,
    "command lines": command_lines,
}


def main() -> int:
    torch.set_num_threads(1)
    total = Counter()
    for name in sys.argv[1:] or PARTS:
        place, begin = Path(tempfile.mkdtemp(prefix="faults-")), time.monotonic()
        place.chmod(0o755)
        count = PARTS[name](place)
        os.chdir("/")
        shutil.rmtree(place, ignore_errors=True)
        total += count
        said = ", ".join(f"{number:,} {what}" for what, number in sorted(count.items()) if number)
        print(f"{name} ({time.monotonic() - begin:.0f} s): {said}", flush=True)
    bad = {what: total[what] for what in BAD if total[what]}
    print(f"went wrong: {bad or 'nothing'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
