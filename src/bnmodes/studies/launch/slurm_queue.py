"""What Slurm says of the jobs that were sent from a folder of results."""

import getpass
import importlib.util
import subprocess
from pathlib import Path
from typing import Any

from bnmodes.studies.launch.worker_command import WorkerCommand

JOB_NAME = "bnmodes"
# squeue shows ended jobs for some minutes. Every other state is one of a job that may still run.
ENDED = {
    "boot_fail", "cancelled", "completed", "deadline", "failed", "node_fail", "out_of_memory",
    "preempted", "revoked", "timeout",
}  # fmt: skip


def jobs_folder(root: Path) -> Path:
    """Where submitit keeps scripts, commands and logs of the jobs."""
    return (root / "slurm").absolute()


def job_states() -> dict[str, str] | None:
    """By job, named as "71" or "71_3": pending, running, requeued, …; None without an answer."""
    command = ["squeue", "--noheader", "--array", "--states=all", f"--user={getpass.getuser()}"]
    command += [f"--name={JOB_NAME}", "--Format=JobArrayID:40,State:20,RestartCnt:10"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    rows = [line.split() for line in answer.stdout.splitlines()]
    return {job: _state(state.lower(), int(restarts)) for job, state, restarts in rows}


def _state(state: str, restarts: int) -> str:
    return "requeued" if restarts and state in ("pending", "completing") else state


def queued_commands(root: Path, states: dict[str, str]) -> dict[str, tuple[WorkerCommand, ...]]:
    """The runs of each job in the queue that was sent from this folder."""
    from submitit import SlurmJob  # here: `study status` works without it

    waiting = [job for job, state in states.items() if state not in ENDED]
    jobs: list[Any] = [SlurmJob(jobs_folder(root), job) for job in waiting]
    return {
        job.job_id: job.submission().function.commands
        for job in jobs
        if job.paths.submitted_pickle.exists()
    }


def run_states(root: Path) -> dict[Path, str] | None:
    """Of each run in the queue, by its folder; None where nothing was sent or Slurm is not here."""
    if not jobs_folder(root).is_dir() or importlib.util.find_spec("submitit") is None:
        return None
    states = job_states()
    if states is None:
        return None
    commands = queued_commands(root, states)
    return {command.folder: states[job] for job in commands for command in commands[job]}
