"""How runs are executed: one small interface, and the engine of this machine behind it."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Protocol, runtime_checkable

from bnmodes.execution import PLAIN, Execution
from bnmodes.studies.spec import StudyRun
from bnmodes.studies.worker import EXIT_IN_USE, EXIT_STOPPED
from bnmodes.training.sinks import SinkName


@runtime_checkable
class Launcher(Protocol):
    """Submit a run, poll, cancel. The study's bookkeeping does not know what is behind it."""

    def free_places(self) -> int:
        """How many more runs it takes now."""

    def submit(self, run: StudyRun, folder: Path, log: Path) -> None:
        """Begin, or go on with, the run in `folder`; its output is appended to `log`."""

    def poll(self) -> dict[Path, str]:
        """Runs that ended since the last call, by folder: ended, in use, stopped or failed."""

    def cancel(self) -> None:
        """Ask every run to stop, and wait until each has kept its checkpoint."""


class LocalLauncher:
    """One single-threaded process per place: that is what gives a study its throughput."""

    def __init__(
        self,
        jobs: int,
        sinks: tuple[SinkName, ...] = (),
        checkpoint_minutes: float = 5.0,
        execution: Execution = PLAIN,
    ):
        self.jobs = jobs
        self.sinks = sinks
        self.checkpoint_minutes = checkpoint_minutes
        self.execution = execution
        self._processes: dict[Path, subprocess.Popen] = {}

    def free_places(self) -> int:
        return self.jobs - len(self._processes)

    def submit(self, run: StudyRun, folder: Path, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "a") as output:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "bnmodes.studies.worker",
                    str(folder),
                    str(os.getpid()),
                    str(self.checkpoint_minutes),
                    json.dumps(asdict(self.execution)),
                    *self.sinks,
                ],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,  # so that Ctrl-C reaches the launcher alone
            )
        try:
            process.stdin.write(json.dumps(run.spec.to_json()))
            process.stdin.close()
        except BrokenPipeError:
            pass  # it died at once; its log and exit code tell
        self._processes[folder] = process

    def poll(self) -> dict[Path, str]:
        endings = {0: "ended", EXIT_IN_USE: "in use", EXIT_STOPPED: "stopped"}
        codes = {folder: process.poll() for folder, process in self._processes.items()}
        ended = {f: endings.get(code, "failed") for f, code in codes.items() if code is not None}
        for folder in ended:
            del self._processes[folder]
        return ended

    def cancel(self) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.wait()
