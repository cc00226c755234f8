"""Slurm as the engine, through submitit: each round of runs is sent as one array of jobs."""

import json
import subprocess
import time
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from submitit import SlurmExecutor
from submitit.core.utils import FailedJobError, FailedSubmissionError

from bnmodes.errors import UsageError
from bnmodes.files import write_json
from bnmodes.runs.folder import RunFolder
from bnmodes.studies.launch.outcome import STOPPED, Outcome, outcome_of
from bnmodes.studies.launch.slurm_job import RunsOfAJob, codes_path
from bnmodes.studies.launch.slurm_queue import (
    ENDED,
    JOB_NAME,
    job_states,
    jobs_folder,
    queued_runs,
    runs_path,
)
from bnmodes.studies.launch.worker_command import WorkerCommand, WorkerOptions
from bnmodes.studies.study import StudyRun

ARRAY_JOBS = 1000
"""Jobs of an array at most: Slurm's own bound, where the site has not changed it."""
_TIME_OUTS = 1000  # of one job; submitit would give it up after three
_INTERRUPTED = {"boot_fail", "cancelled", "node_fail", "preempted", "revoked"}


@dataclass(frozen=True)
class JobRequest:
    """What each job asks Slurm for."""

    time_minutes: int
    """Time limit; runs that need more are requeued and go on."""
    memory_gb: float
    """Memory of one run (GB)."""
    partition: str = ""
    """Partition; empty for the site's default."""
    gpus: int = 0
    """Accelerators of a job, shared by its runs (number)."""
    runs: int = 1
    """Runs of a job, side by side, one core each (number)."""

    def parameters(self) -> dict[str, Any]:
        """In submitit's words. The warning comes early enough for each to write gigabytes."""
        limit_seconds = 60 * self.time_minutes
        parameters = {
            "job_name": JOB_NAME,
            "time": self.time_minutes,
            "cpus_per_task": self.runs,
            "mem": f"{round(1000 * (self.runs * self.memory_gb + 1))}MB",  # 1 GB for the job itself
            "srun_args": [f"--cpus-per-task={self.runs}"],  # srun does not take it from sbatch
            "signal_delay_s": min(300 * self.runs, limit_seconds // 5),
            "stderr_to_stdout": True,
            "additional_parameters": {"requeue": True},
        }
        if self.partition:
            parameters["partition"] = self.partition
        if self.gpus:
            parameters["gpus_per_node"] = self.gpus
        return parameters


class SlurmLauncher:
    """Slurm holds the queue and goes on without us; here is known which run is in which job."""

    poll_seconds = 5.0

    def __init__(self, root: Path, jobs: int, request: JobRequest, options: WorkerOptions):
        states = job_states()
        if states is None:
            raise UsageError(
                "Slurm does not answer (squeue): --launcher slurm works on a machine of the "
                "cluster from which jobs can be sent."
            )
        self.root, self.folder = root, jobs_folder(root)
        self.jobs = jobs
        self.request = request
        self.options = options
        self._executor = SlurmExecutor(self.folder, max_num_timeout=_TIME_OUTS)
        self._executor.update_parameters(**request.parameters())
        # A launcher that died has left its jobs in the queue; a run of theirs is not sent again.
        self._jobs: dict[str, tuple[Path, ...]] = queued_runs(root, states)  # their runs' folders
        self._collected: list[WorkerCommand] = []
        self._submitted: dict[Path, Path] = {}  # a command's folder: as the schedule names it
        self._array, self._array_places = "", 0
        self._cancelled = False

    def free_places(self) -> int:
        return ARRAY_JOBS * self.request.runs - len(self._collected)

    def submit(self, run: StudyRun, folder: Path, log: Path) -> None:
        """It is sent with the others of its round, once fewer jobs than allowed are in the queue;
        one that a launcher which died has left there is only looked after."""
        command = WorkerCommand.of(run, folder, log, self.options)
        self._submitted[command.folder] = folder
        in_queue = {queued for folders in self._jobs.values() for queued in folders}
        if command.folder not in in_queue:
            self._collected.append(command)

    def poll(self) -> dict[Path, Outcome]:
        if self._cancelled:
            stopped, self._submitted = self._submitted, {}
            return dict.fromkeys(stopped.values(), STOPPED)
        self._send()
        states = job_states()
        if states is None:
            return {}  # the controller is busy or away; the jobs are not
        ended: dict[Path, Outcome] = {}
        for job in list(self._jobs):
            # Of cancelled tasks that never began, only their array is listed.
            state = states.get(job) or states.get(job.partition("_")[0])
            if (outcomes := self._outcomes(job, state)) is not None:
                del self._jobs[job]
                ended |= outcomes
        self._widen_array()
        return {self._submitted.pop(f): e for f, e in ended.items() if f in self._submitted}

    def cancel(self) -> None:
        """Running jobs are told that their time is over: they keep checkpoints, however long that
        takes, and requeue themselves. Whatever waits is taken out of the queue."""
        self._cancelled = True
        ours = {
            job
            for job, folders in self._jobs.items()
            if any(folder in self._submitted for folder in folders)
        }
        while ours:
            states = job_states()
            if states is not None:
                ours = {job for job in ours if states.get(job, "completed") not in ENDED}
                running = {job for job in ours if states[job] == "running"}
                # First what waits: scancel repeats a signal to task 0 while others of it wait.
                _scancel(ours - running)
                _scancel(running, "--signal=USR2")
            if ours:
                time.sleep(self.poll_seconds)

    def _send(self) -> None:
        size, places = self.request.runs, self.jobs - len(self._jobs)
        if not self._collected or places <= 0:
            return
        groups = [self._collected[i : i + size] for i in range(0, len(self._collected), size)]
        self._executor.update_parameters(array_parallelism=places)
        try:
            with redirect_stderr(StringIO()):  # submitit would print what is said here
                jobs = self._executor.submit_array(
                    [RunsOfAJob(tuple(group), self.folder) for group in groups]
                )
        except (FailedJobError, FailedSubmissionError) as error:
            if not self._jobs:
                reason = str(error).strip().splitlines()[-1].removeprefix("sbatch: error: ")
                raise UsageError(f"Slurm refuses the jobs: {reason}") from None
            return  # it took others before: try again at the next poll
        self._collected.clear()
        for job, group in zip(jobs, groups, strict=True):
            folders = tuple(command.folder for command in group)
            self._jobs[job.job_id] = folders
            write_json(runs_path(self.root, job.job_id), [folder.name for folder in folders])
        self._array, self._array_places = jobs[0].job_id.partition("_")[0], places

    def _widen_array(self) -> None:
        """The newest array gets the places that jobs of earlier ones leave."""
        mine = [job for job in self._jobs if job.startswith(f"{self._array}_")]
        places = self.jobs - (len(self._jobs) - len(mine))
        if mine and places > self._array_places:
            subprocess.run(
                ["scontrol", "update", f"JobId={self._array}", f"ArrayTaskThrottle={places}"],
                check=False,
                capture_output=True,
            )
            self._array_places = places

    def _outcomes(self, job: str, state: str | None) -> dict[Path, Outcome] | None:
        """Of the job's runs; None while it may go on, or its files are not visible here yet."""
        if state is not None and state not in ENDED:
            return None
        folders = self._jobs[job]
        codes = self._exit_codes(job)
        if codes is None:
            if state == "completed":
                return None
            reason = f"Slurm job {job}: {state or 'gone'}; its own log is in {self.folder}"
            interrupted = STOPPED if state in _INTERRUPTED else Outcome("failed", reason)
            return dict.fromkeys(folders, interrupted)
        outcomes = {f: outcome_of(code) for f, code in zip(folders, codes, strict=True)}
        late = [f for f, o in outcomes.items() if o.kind == "ended" and not RunFolder(f).finished]
        return None if late and state is not None else outcomes

    def _exit_codes(self, job: str) -> list[int] | None:
        """None of a job that was stopped, or that failed as a whole."""
        try:
            codes = json.loads(codes_path(self.folder, job).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        is_right = isinstance(codes, list) and len(codes) == len(self._jobs[job])
        return codes if is_right and all(type(code) is int for code in codes) else None


def _scancel(jobs: set[str], *options: str) -> None:
    if jobs:
        subprocess.run(["scancel", "--quiet", *options, *sorted(jobs)], check=False)
