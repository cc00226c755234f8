"""Processes that can be killed cheaply: forked from one that has imported everything already."""

import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bnmodes.runs import checkpoint
from bnmodes.runs.loop import train
from bnmodes.runs.spec import RunSpec
from bnmodes.runs.stopping import Stopped
from bnmodes.studies.launch.outcome import EXIT_IN_USE, EXIT_STOPPED, Outcome, outcome_of
from bnmodes.studies.launch.worker import stop_with
from bnmodes.studies.study import StudyRun

CHECKPOINT_MINUTES = 0.1 / 60
_FLUSH_SECONDS = 0.005
"""Longer than a good disk takes, so that a kill often comes in the middle of a write."""


@dataclass
class Child:
    pid: int
    output: Path
    code: int | None = None
    """−N: ended by signal N."""

    def poll(self) -> int | None:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code

    def wait(self) -> int:
        while self.poll() is None:
            time.sleep(0.002)
        return self.code

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()

    def said(self) -> str:
        text = self.output.read_text(errors="replace")
        self.output.unlink()
        return text


def fork(work: Callable[[], int | None]) -> Child:
    """Do it in a child; a traceback is printed as Python does, with exit code 1."""
    handle, path = tempfile.mkstemp(prefix="child-")
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        os.close(handle)
        return Child(pid, Path(path))
    code = 1
    try:
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.stdout, sys.stderr = (os.fdopen(n, "w", closefd=False) for n in (1, 2))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = work() or 0
    except SystemExit as exit:
        code = exit.code if isinstance(exit.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def training(spec: RunSpec, folder: Path) -> Callable[[], int]:
    def work() -> int:
        flush = checkpoint.flush_to_disk
        checkpoint.flush_to_disk = lambda path: (time.sleep(_FLUSH_SECONDS), flush(path))
        try:
            train(spec, folder, checkpoint_minutes=CHECKPOINT_MINUTES, show_progress=False)
        except Stopped:
            return EXIT_STOPPED
        return 0

    return work


class ForkingLauncher:
    """As the local one, with workers that need no time to start."""

    poll_seconds = 0.01

    def __init__(self, jobs: int):
        self.jobs = jobs
        self._children: dict[Path, Child] = {}

    def free_places(self) -> int:
        return self.jobs - len(self._children)

    def submit(self, run: StudyRun, folder: Path, log: Path) -> None:
        launcher = os.getpid()

        def work() -> int:
            from bnmodes.runs.folder import FolderInUse

            stop_with(launcher)
            try:
                return training(run.spec, folder)()
            except FolderInUse:
                return EXIT_IN_USE

        self._children[folder] = fork(work)

    def poll(self) -> dict[Path, Outcome]:
        codes = {folder: child.poll() for folder, child in self._children.items()}
        ended = {folder: outcome_of(code) for folder, code in codes.items() if code is not None}
        for folder in ended:
            self._children.pop(folder).output.unlink()
        return ended

    def cancel(self) -> None:
        for child in self._children.values():
            if child.poll() is None:
                os.kill(child.pid, signal.SIGTERM)
        for child in self._children.values():
            child.wait()
