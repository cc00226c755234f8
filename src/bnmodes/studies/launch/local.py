"""The engine of this machine: worker processes side by side."""

import time
from pathlib import Path

from bnmodes.studies.launch.outcome import Outcome, outcome_of
from bnmodes.studies.launch.worker_command import WorkerCommand, WorkerOptions
from bnmodes.studies.launch.worker_process import WorkerProcess
from bnmodes.studies.study import StudyRun

_LOOK_SECONDS = 0.05


class LocalLauncher:
    """One single-threaded process per place: that is what gives a study its throughput."""

    poll_seconds = 0.2

    def __init__(self, jobs: int, options: WorkerOptions):
        self.jobs = jobs
        self.options = options
        self._processes: dict[Path, WorkerProcess] = {}

    def free_places(self) -> int:
        return self.jobs - len(self._processes)

    def submit(self, run: StudyRun, folder: Path, log: Path) -> None:
        self._processes[folder] = WorkerCommand.of(run, folder, log, self.options).start()

    def poll(self) -> dict[Path, Outcome]:
        codes = {folder: process.poll() for folder, process in self._processes.items()}
        ended = {folder: outcome_of(code) for folder, code in codes.items() if code is not None}
        for folder in ended:
            del self._processes[folder]
        return ended

    def cancel(self) -> None:
        """A second Ctrl-C waits for no checkpoint: the workers are killed."""
        processes = self._processes.values()
        try:
            for process in processes:
                process.terminate()
            while any([process.poll() is None for process in processes]):  # each is looked at
                time.sleep(_LOOK_SECONDS)
        except KeyboardInterrupt:
            for process in processes:
                process.kill()
            raise
