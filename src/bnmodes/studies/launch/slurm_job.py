"""What a Slurm job does: its runs side by side, each in a worker process, on one accelerator."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from submitit.helpers import DelayedSubmission

from bnmodes.files import write_json
from bnmodes.studies.launch.worker_command import WorkerCommand
from bnmodes.studies.launch.worker_process import WorkerProcess

_LOOK_SECONDS = 0.5


class RunsOfAJob:
    """Called by submitit on the node; Slurm's signals reach the workers as well as this process."""

    def __init__(self, commands: tuple[WorkerCommand, ...], folder: Path):
        self.commands = commands
        self.folder = folder
        self._processes: list[WorkerProcess] = []

    def __call__(self) -> None:
        """Run them all, and leave their exit codes in a file."""
        for number, command in enumerate(self.commands):
            self._processes.append(command.start(environment_of(number, os.environ)))
        # No blocking wait: `checkpoint` interrupts it, and waits for the same processes.
        while any([process.poll() is None for process in self._processes]):  # each is looked at
            time.sleep(_LOOK_SECONDS)
        codes = [process.returncode for process in self._processes]
        write_json(codes_path(self.folder, this_job(os.environ)), codes)

    def checkpoint(self) -> DelayedSubmission:
        """Before the time is over, or upon pre-emption: keep checkpoints, then be requeued."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            with suppress(ChildProcessError):  # it had ended before
                os.waitpid(process.pid, 0)
        return DelayedSubmission(RunsOfAJob(self.commands, self.folder))


def this_job(environment: Mapping[str, str]) -> str:
    """Named as Slurm's queue names it, "71" or "71_3"."""
    if array := environment.get("SLURM_ARRAY_JOB_ID"):
        return f"{array}_{environment['SLURM_ARRAY_TASK_ID']}"
    return environment["SLURM_JOB_ID"]


def codes_path(folder: Path, job: str) -> Path:
    """The exit codes of a job's workers."""
    return folder / f"{job}-codes.json"


def environment_of(number: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Of the job's worker with this number: the job's accelerators are dealt out in turn."""
    accelerators = [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    if not accelerators:
        return dict(environment)
    own = accelerators[number % len(accelerators)]
    return {**environment, "CUDA_VISIBLE_DEVICES": own}
