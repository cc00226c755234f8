"""A run as a command that any machine of a cluster can start, in a worker process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bnmodes import plugins
from bnmodes.execution import PLAIN, Execution
from bnmodes.files import open_in_place
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.sinks import SinkName
from bnmodes.studies.launch.worker_process import WorkerProcess
from bnmodes.studies.study import StudyRun


@dataclass(frozen=True)
class WorkerOptions:
    """What is the same for all workers of a study."""

    checkpoint_minutes: float = 5.0
    """Minutes between checkpoints of a run."""
    sinks: tuple[SinkName, ...] = ()
    """Where metrics go besides the runs' own files."""
    execution: Execution = PLAIN
    """How the runs are computed."""
    network_seeds: tuple[int, ...] | None = None
    """Seeds whose final networks are kept; None: all."""
    hang_minutes: float = 30.0
    """Minutes without a sign of life after which a worker is killed."""


@dataclass(frozen=True)
class WorkerCommand:
    """All that a worker needs; its paths hold on every machine that shares the file system."""

    task_json: str
    """The run's specification, the options, and the paths of users' own files to import."""
    folder: Path
    log: Path
    hang_minutes: float = 30.0

    @classmethod
    def of(cls, run: StudyRun, folder: Path, log: Path, options: WorkerOptions) -> "WorkerCommand":
        task = {
            "spec": run.spec.to_json(),
            "plugins": {str(path): sha256 for path, sha256 in plugins.loaded_files().items()},
            "checkpoint_minutes": options.checkpoint_minutes,
            "sinks": options.sinks,
            "execution": asdict(options.execution),
            "keep_networks": options.network_seeds is None or run.seed in options.network_seeds,
        }
        return cls(json.dumps(task), folder.absolute(), log.absolute(), options.hang_minutes)

    def start(self, environment: Mapping[str, str] = os.environ) -> WorkerProcess:
        """One single-threaded process. It stops, with a checkpoint, when this process dies."""
        self.log.parent.mkdir(exist_ok=True)
        with open_in_place(self.log, "a") as output:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "bnmodes.studies.launch.worker",
                    str(self.folder),
                    str(os.getpid()),
                ],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment,
                start_new_session=True,  # so that Ctrl-C reaches the launcher alone
            )
        assert process.stdin is not None  # a pipe was asked for
        try:
            process.stdin.write(self.task_json)
            process.stdin.close()
        except BrokenPipeError:
            pass  # it died at once; its log and exit code tell
        return WorkerProcess(process, RunFolder(self.folder).progress_path, self.hang_minutes)
