"""The engine of this machine: worker processes side by side."""

import subprocess
from pathlib import Path

from bnmodes.studies.launch.worker_command import WorkerCommand, WorkerOptions, outcome_of
from bnmodes.studies.study import StudyRun


class LocalLauncher:
    """One single-threaded process per place: that is what gives a study its throughput."""

    poll_seconds = 0.2

    def __init__(self, jobs: int, options: WorkerOptions):
        self.jobs = jobs
        self.options = options
        self._processes: dict[Path, subprocess.Popen] = {}

    def free_places(self) -> int:
        return self.jobs - len(self._processes)

    def submit(self, run: StudyRun, folder: Path, log: Path) -> None:
        self._processes[folder] = WorkerCommand.of(run, folder, log, self.options).start()

    def poll(self) -> dict[Path, str]:
        codes = {folder: process.poll() for folder, process in self._processes.items()}
        ended = {folder: outcome_of(code) for folder, code in codes.items() if code is not None}
        for folder in ended:
            del self._processes[folder]
        return ended

    def cancel(self) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.wait()
