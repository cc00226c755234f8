"""Ray as the engine: each run is a task, which a worker process of ours runs on its node."""

import atexit
import re
import shutil
import socket
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray

from bnmodes.errors import UsageError
from bnmodes.studies.launch.outcome import STOPPED, Outcome, outcome_of
from bnmodes.studies.launch.worker_command import WorkerCommand, WorkerOptions
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
        self._submitted: dict[ray.ObjectRef, Path] = {}

    def free_places(self) -> int:
        return self.jobs - len(self._submitted)

    def submit(self, run: StudyRun, folder: Path, log: Path) -> None:
        command = WorkerCommand.of(run, folder, log, self.options)
        self._submitted[self._task.options(name=str(run)).remote(command)] = folder

    def poll(self) -> dict[Path, Outcome]:
        tasks = list(self._submitted)
        ended = ray.wait(tasks, num_returns=len(tasks), timeout=0)[0] if tasks else []
        return dict(self._outcome(task) for task in ended)

    def cancel(self) -> None:
        tasks = list(self._submitted)
        for task in tasks:
            ray.cancel(task)
        if tasks:
            ray.wait(tasks, num_returns=len(tasks))

    def _outcome(self, task: ray.ObjectRef) -> tuple[Path, Outcome]:
        folder = self._submitted.pop(task)
        try:
            return folder, ray.get(task)
        except ray.exceptions.TaskCancelledError:
            return folder, STOPPED
        except ray.exceptions.RayError as error:
            return folder, Outcome("failed", f"Ray: {str(error).strip().splitlines()[0]}")


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
    # Ray lets everybody write to its folder; nobody else gets into the one around it.
    around = tempfile.mkdtemp(prefix="bnmodes-")
    atexit.register(shutil.rmtree, around, ignore_errors=True)
    own: dict[str, Any] = {
        "include_dashboard": False,
        "_temp_dir": f"{around}/ray",
        "_node_ip_address": "127.0.0.1",
    }
    # Commands and outcomes are a few kilobytes; the memory is for the runs.
    try:
        ray.init("local", object_store_memory=100 * 2**20, **own, **quiet)
    except Exception as error:  # it raises many kinds, a time-out with 34 lines among them
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UsageError(
            f"Ray did not start on this machine ({reason}): try again when it is less busy, or use "
            "--launcher local."
        ) from None
    if (address := ray.nodes()[0]["NodeManagerAddress"]) != "127.0.0.1":
        ray.shutdown()
        raise UsageError(
            f"Ray would listen on {address}, where other machines can reach it: use --launcher "
            "local."
        )
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


def run_worker(command: WorkerCommand) -> Outcome:
    """In a process of Ray's; cancelling the task interrupts it there, as Ctrl-C would."""
    process = None
    try:
        process = command.start()
        while process.poll() is None:
            time.sleep(_LOOK_SECONDS)
    except KeyboardInterrupt:
        if process is None:
            return STOPPED
        process.terminate()
        while process.poll() is None:
            time.sleep(_LOOK_SECONDS)
    return outcome_of(process.returncode or 0)
