"""What a Slurm job does: its runs side by side, each in a worker process, on one accelerator."""

import os
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress

from submitit.helpers import DelayedSubmission

from bnmodes.studies.launch.worker_command import WorkerCommand

_LOOK_SECONDS = 0.5


class RunsOfAJob:
    """Called by submitit on the node; Slurm's signals reach the workers as well as this process."""

    def __init__(self, commands: tuple[WorkerCommand, ...]):
        self.commands = commands
        self._processes: list[subprocess.Popen] = []

    def __call__(self) -> list[int]:
        """The workers' exit codes."""
        for number, command in enumerate(self.commands):
            self._processes.append(command.start(environment_of(number, os.environ)))
        # No blocking wait: `checkpoint` interrupts it, and waits for the same processes.
        while any(process.poll() is None for process in self._processes):
            time.sleep(_LOOK_SECONDS)
        return [process.returncode for process in self._processes]

    def checkpoint(self) -> DelayedSubmission:
        """Before the time is over, or upon pre-emption: keep checkpoints, then be requeued."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            with suppress(ChildProcessError):  # it had ended before
                os.waitpid(process.pid, 0)
        return DelayedSubmission(RunsOfAJob(self.commands))


def environment_of(number: int, environment: Mapping[str, str]) -> dict[str, str]:
    """Of the job's worker with this number: the job's accelerators are dealt out in turn."""
    accelerators = [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    if not accelerators:
        return dict(environment)
    own = accelerators[number % len(accelerators)]
    return {**environment, "CUDA_VISIBLE_DEVICES": own}
