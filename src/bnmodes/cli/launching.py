"""Where a study runs: the options of each engine, and the engine behind them."""

import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bnmodes.errors import UsageError
from bnmodes.execution import Execution
from bnmodes.studies.estimate import jobs_here, memory_bytes
from bnmodes.studies.launch.launcher import Launcher, require_engine
from bnmodes.studies.launch.local import LocalLauncher
from bnmodes.studies.launch.worker_command import WorkerOptions
from bnmodes.studies.study import Study

# Ray reads them while it is imported. The second is what keeps it on 127.0.0.1 by itself only on
# Windows and macOS; the token would still keep other users of this machine out.
_RAY_ON_LOOPBACK = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_AUTH_MODE": "token",
}

_BELONGS_TO = {
    "partition": ("slurm",),
    "time": ("slurm",),
    "gpus_per_job": ("slurm", "ray"),
    "runs_per_job": ("slurm", "ray"),
    "memory_gb": ("slurm", "ray"),
    "address": ("ray",),
}


@dataclass(frozen=True)
class LaunchOptions:
    """Where the runs are executed. Results and files are the same everywhere."""

    launcher: Literal["local", "slurm", "ray"] = "local"
    """This machine, a Slurm cluster, or a Ray cluster; those share the folder of results."""
    jobs: int = 0
    """Runs at once; 0: one per core here as memory allows, in a cluster as many as it gives."""
    partition: str = ""
    """Slurm: partition of the jobs; without it, the site's default."""
    time: str = "1-00:00:00"
    """Slurm: time limit of a job, in minutes or as D-HH:MM:SS. Longer runs are requeued."""
    gpus_per_job: int = 0
    """Slurm, Ray: accelerators of a job (number)."""
    runs_per_job: int = 1
    """Slurm, Ray: runs side by side that share a job's accelerators (number)."""
    memory_gb: float = 0.0
    """Slurm, Ray: memory of one run (GB); 0: what `study show` says."""
    address: str = ""
    """Ray: the cluster, as `ray.init` takes it; without it, one on this machine for the purpose."""

    def validate(self, execution: Execution) -> None:
        for name, launchers in _BELONGS_TO.items():
            if getattr(self, name) != getattr(LaunchOptions, name) and (
                self.launcher not in launchers
            ):
                belongs = " or ".join(f"--launcher {launcher}" for launcher in launchers)
                raise UsageError(
                    f"--{name.replace('_', '-')} belongs to {belongs}, not to "
                    f"--launcher {self.launcher}: leave one of them out."
                )
        lows = {"jobs": 0, "gpus_per_job": 0, "runs_per_job": 1, "memory_gb": 0}
        for name, low in lows.items():
            if (value := getattr(self, name)) < low:
                raise UsageError(f"{name.replace('_', '-')} is {value}: must be at least {low}.")
        minutes_of(self.time)
        if self.gpus_per_job and self.runs_per_job % self.gpus_per_job:
            raise UsageError(
                f"{self.gpus_per_job} accelerators for {self.runs_per_job} runs: a run uses one, "
                "so --runs-per-job must be a multiple of --gpus-per-job."
            )
        if self.launcher == "local":
            execution.validate_here()
            return
        execution.validate()  # the engine's machines have what they have
        if execution.device not in ("cpu", "cuda"):
            raise UsageError(
                f"device '{execution.device}' in a cluster: give --device cuda, each run is given "
                "its accelerator."
            )
        if execution.on_accelerator != (self.gpus_per_job > 0):
            raise UsageError(
                f"--gpus-per-job {self.gpus_per_job} with --device {execution.device}: runs on "
                "accelerators need both --gpus-per-job and --device cuda, others neither."
            )

    def open(self, study: Study, root: Path, options: WorkerOptions) -> Launcher:
        if self.launcher == "local":
            return LocalLauncher(self.jobs or jobs_here(study), options)
        if self.launcher == "slurm":
            return self._open_slurm(study, root, options)
        return self._open_ray(study, options)

    def _open_slurm(self, study: Study, root: Path, options: WorkerOptions) -> Launcher:
        require_engine("submitit", "slurm")
        from bnmodes.studies.launch.slurm import ARRAY_JOBS, JobRequest, SlurmLauncher

        request = JobRequest(
            time_minutes=minutes_of(self.time),
            memory_gb=self._memory_gb(study),
            partition=self.partition,
            gpus=self.gpus_per_job,
            runs=self.runs_per_job,
        )
        return SlurmLauncher(root, self.jobs or ARRAY_JOBS, request, options)

    def _open_ray(self, study: Study, options: WorkerOptions) -> Launcher:
        require_engine("ray", "ray")
        if not self.address:
            os.environ |= _RAY_ON_LOOPBACK | {"RAY_AUTH_TOKEN": secrets.token_hex(32)}
        from bnmodes.studies.launch.ray import RayLauncher, TaskRequest

        request = TaskRequest(self._memory_gb(study), self.gpus_per_job / self.runs_per_job)
        return RayLauncher(self.address, self.jobs or len(study.runs), request, options)

    def _memory_gb(self, study: Study) -> float:
        return self.memory_gb or memory_bytes(study) / 1e9


def minutes_of(time: str) -> int:
    """A time limit as Slurm writes it: M, M:S, H:M:S, D-H, D-H:M or D-H:M:S; rounded up."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", time)
    if match is None:
        raise UsageError(f"time is {time}: write minutes, or D-HH:MM:SS.")
    days, *parts = (None if part is None else int(part) for part in match.groups())
    given = [part for part in parts if part is not None]
    if days is not None:
        hours, minutes, seconds = (*given, 0, 0)[:3]
    elif len(given) == 3:
        hours, minutes, seconds = given
    else:
        hours, (minutes, seconds) = 0, (*given, 0)[:2]
    total_seconds = (((days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds
    if total_seconds == 0:
        raise UsageError("time is 0, but must be more.")
    return -(-total_seconds // 60)
