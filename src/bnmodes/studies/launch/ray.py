"""Ray as the engine: each run is a task, which a worker process of ours runs on its node."""

import os
import re
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray

from bnmodes.errors import UsageError
from bnmodes.studies.launch.worker_command import WorkerCommand, WorkerOptions, outcome_of
from bnmodes.studies.study import StudyRun

_LOST_WORKERS = 10  # of one submission, before it counts as failed
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class TaskRequest:
    """What each run asks Ray for, besides one core."""

    memory_gb: float
    """Memory of one run (GB)."""
    gpus: float = 0.0
    """Accelerators of one run; a half means that two runs share one (number)."""

    def resources(self) -> dict[str, float]:
        """In Ray's words."""
        return {"CPU": 1, "GPU": self.gpus, "memory": int(1e9 * self.memory_gb)}


class RayLauncher:
    """Ray holds the queue, and starts a task again whose node or process was lost."""

    poll_seconds = 0.5

    def __init__(self, address: str, jobs: int, request: TaskRequest, options: WorkerOptions):
        self.jobs = jobs
        self.options = options
        _connect(address, request)
        resources = request.resources()
        self._task = ray.remote(
            num_cpus=resources["CPU"],
            num_gpus=resources["GPU"],
            memory=resources["memory"],
            max_retries=_LOST_WORKERS,
        )(run_worker)
        self._submitted: dict[ray.ObjectRef, tuple[Path, WorkerCommand]] = {}

    def free_places(self) -> int:
        return self.jobs - len(self._submitted)

    def submit(self, run: StudyRun, folder: Path, log: Path) -> None:
        command = WorkerCommand.of(run, folder, log, self.options)
        self._submitted[self._task.options(name=str(run)).remote(command)] = (folder, command)

    def poll(self) -> dict[Path, str]:
        tasks = list(self._submitted)
        ended = ray.wait(tasks, num_returns=len(tasks), timeout=0)[0] if tasks else []
        return dict(self._outcome(task) for task in ended)

    def cancel(self) -> None:
        tasks = list(self._submitted)
        for task in tasks:
            ray.cancel(task)
        if tasks:
            ray.wait(tasks, num_returns=len(tasks))

    def _outcome(self, task: ray.ObjectRef) -> tuple[Path, str]:
        folder, command = self._submitted.pop(task)
        try:
            return folder, ray.get(task)
        except ray.exceptions.TaskCancelledError:
            return folder, "stopped"
        except ray.exceptions.RayError as error:
            command.log.parent.mkdir(parents=True, exist_ok=True)
            with open(command.log, "a") as log:
                log.write(f"Ray: {error}\n")
            return folder, "failed"


def _connect(address: str, request: TaskRequest) -> None:
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address:
        _require_listener(address)
        try:
            ray.init(address, **quiet)
        except (ConnectionError, RuntimeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise UsageError(f"no Ray cluster at --address {address}: {reason}") from None
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Commands and outcomes are a few kilobytes; the memory is for the runs.
    try:
        ray.init("local", include_dashboard=False, object_store_memory=100 * 2**20, **quiet)
    except Exception as error:  # it raises many kinds, a time-out with 34 lines among them
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(
            f"Ray did not start on this machine ({reason}): try again when it is less busy, or use "
            "--launcher local."
        ) from None
    here = ray.cluster_resources()
    for name, wanted in request.resources().items():
        if wanted > here.get(name, 0):
            raise UsageError(
                f"a run asks for {wanted:,} of Ray's resource {name}, but this machine has "
                f"{here.get(name, 0):,.0f}: ask for less, or give the --address of a cluster."
            )


def _require_listener(address: str) -> None:
    """Ray itself would try for minutes, and then end the process."""
    if named := re.fullmatch(r"(?:ray://)?(.+):(\d+)", address):
        try:
            socket.create_connection((named[1], int(named[2])), timeout=10).close()
        except OSError as error:
            raise UsageError(f"no Ray cluster at --address {address}: {error}.") from None


def run_worker(command: WorkerCommand) -> str:
    """In a process of Ray's; cancelling the task interrupts it there, as Ctrl-C would."""
    process = None
    try:
        process = command.start()
        while process.poll() is None:
            time.sleep(_LOOK_SECONDS)
    except KeyboardInterrupt:
        if process is None:
            return "stopped"
        process.terminate()
        process.wait()
    return outcome_of(process.returncode)
