"""What Slurm says of the jobs that were sent from a folder of results."""

import getpass
import json
import re
import subprocess
from pathlib import Path

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


def runs_path(root: Path, job: str) -> Path:
    """Says which runs a job has. It is JSON: what submitit keeps there is pickled, and reading that
    would run whatever someone else has put into it."""
    return jobs_folder(root) / f"{job}-runs.json"


def queued_runs(root: Path, states: dict[str, str]) -> dict[str, tuple[Path, ...]]:
    """The folders of the runs of each job in the queue that was sent from this folder."""
    queued = {}
    for job, state in states.items():
        path = runs_path(root, job)
        if state in ENDED or not path.exists():
            continue
        try:
            names = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue  # damaged: its runs are found in use if they are sent again
        if isinstance(names, list) and all(_is_run_name(name) for name in names):
            queued[job] = tuple((root / "runs" / name).absolute() for name in names)
    return queued


def _is_run_name(name: object) -> bool:
    return isinstance(name, str) and re.fullmatch(r"\w+", name) is not None


def run_states(root: Path) -> dict[Path, str] | None:
    """Of each run in the queue, by its folder; None where nothing was sent or Slurm is not here."""
    if not jobs_folder(root).is_dir():
        return None
    states = job_states()
    if states is None:
        return None
    queued = queued_runs(root, states)
    return {folder: states[job] for job in queued for folder in queued[job]}
