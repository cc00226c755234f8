"""Waiting, in a test, for something to happen in a study that another process runs."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.small_study import half_done


def wait_for(condition: Callable[[], object], command: subprocess.Popen, seconds: float = 180):
    """What the condition gives, once it gives something; the command must be running until then."""
    for _ in range(round(seconds / 0.05)):
        if found := condition():
            return found
        assert command.poll() is None, f"it ended with {command.returncode}"
        time.sleep(0.05)
    pytest.fail(f"nothing after {seconds} seconds")


def wait_until_half_done(root: Path, command: subprocess.Popen) -> list[Path]:
    """Folders of runs that have recorded something, and not all."""
    return [folder.path for folder in wait_for(lambda: half_done(root), command)]
