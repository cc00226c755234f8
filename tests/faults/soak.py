"""A long run, watched from outside: memory, open files, and decisions per second of the processor.

python tests/faults/soak.py [MINUTES]
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MINUTES = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
LOOK_SECONDS = 10
COMMAND = (
    "train", "c51", "--env", "minatar/breakout", "--arm", "bn-batch",
    "--total-decisions", "99999999", "--replay-capacity", "20000",
    "--learning-starts-decisions", "2000", "--threads", "1",
    "--record-every-decisions", "1000", "--evaluation.every-decisions", "20000",
    "--checkpoint-minutes", "1",
)  # fmt: skip


def look(pid: int, folder: Path) -> dict[str, float]:
    """Of a process: resident memory (MB), open files, processor seconds, decisions."""
    process = Path(f"/proc/{pid}")
    pages = int((process / "statm").read_text().split()[1])
    stat = (process / "stat").read_text().rpartition(")")[2].split()
    return {
        "memory_mb": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        "files": len(list((process / "fd").iterdir())),
        "processor_seconds": (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK"),
        "decision": json.loads((folder / "progress.json").read_text())["decision"],
        "seconds": time.monotonic(),
    }


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="soak-")) / "run"
    run = subprocess.Popen([sys.executable, "-m", "bnmodes", *COMMAND, "--out", str(folder)])
    while not (folder / "progress.json").exists() or look(run.pid, folder)["decision"] < 25_000:
        time.sleep(1)  # until the replay is full
    looks, end = [], time.monotonic() + 60 * MINUTES
    while time.monotonic() < end and run.poll() is None:
        looks.append(look(run.pid, folder))
        time.sleep(LOOK_SECONDS)
    run.terminate()
    assert run.wait() == 130
    third = len(looks) // 3
    for name, part in (("first", looks[:third]), ("last", looks[-third:])):
        decisions = part[-1]["decision"] - part[0]["decision"]
        used = part[-1]["processor_seconds"] - part[0]["processor_seconds"]
        wall = part[-1]["seconds"] - part[0]["seconds"]
        memory, files = ([one[key] for one in part] for key in ("memory_mb", "files"))
        print(
            f"{name} third: memory {min(memory):.0f} to {max(memory):.0f} MB, open files "
            f"{min(files)} to {max(files)}, {decisions / used:.0f} decisions per processor second, "
            f"{decisions / wall:.0f} per second"
        )
    print(f"{looks[-1]['decision']:,} decisions in all, {MINUTES:g} minutes watched")


if __name__ == "__main__":
    main()
