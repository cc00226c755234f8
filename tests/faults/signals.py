"""SIGINT and SIGTERM while a command still starts: no traceback, whatever is being imported."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

COMMANDS = (
    ("train", "c51", "--env", "probe/chain", "--total-decisions", "100", "--out", "run"),
    ("study", "run", "quick", "--jobs", "1", "--out", "results"),
    ("study", "list"),
    ("explain", "c51"),
)


def interrupt_starts(here: Path, times: int, seed: int, longest_seconds: float = 2.0) -> Counter:
    dice, count = random.Random(seed), Counter()
    for number in range(times):
        command = COMMANDS[number % len(COMMANDS)]
        process = subprocess.Popen(
            [sys.executable, "-m", "bnmodes", *command],
            cwd=here, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        # Before that, Python itself is being started and there is nobody to tell it better.
        wait_for_our_code(process.pid)
        time.sleep(dice.uniform(0.05, longest_seconds) if number else 0.05)
        number_sent = dice.choice((signal.SIGINT, signal.SIGTERM)) if number else signal.SIGINT
        if process.poll() is None:
            os.kill(process.pid, number_sent)
            count["signals at start-up"] += 1
        try:
            said, _ = process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            count["signals lost"] += 1
            process.terminate()
            said, _ = process.communicate()
        is_right = process.returncode in (0, 1, 2, 130, -signal.SIGTERM)
        if "Traceback" in said or not is_right:
            print(f"{command} ended with {process.returncode}: {said[-500:]}")
            count["tracebacks"] += 1
    return count


def wait_for_our_code(pid: int) -> None:
    """Until the first installed library is being loaded."""
    for _ in range(1000):
        try:
            if "site-packages" in Path(f"/proc/{pid}/maps").read_text():
                return
        except OSError:
            return
        time.sleep(0.01)
