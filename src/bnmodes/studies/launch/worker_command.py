"""A run as a command that any machine of a cluster can start, in a worker process of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bnmodes import plugins
from bnmodes.execution import PLAIN, Execution
from bnmodes.runs.sinks import SinkName
from bnmodes.studies.study import StudyRun

EXIT_IN_USE = 75
EXIT_STOPPED = 130


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


@dataclass(frozen=True)
class WorkerCommand:
    """All that a worker needs; its paths hold on every machine that shares the file system."""

    task_json: str
    """The run's specification, the options, and the paths of users' own files to import."""
    folder: Path
    log: Path

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
        return cls(json.dumps(task), folder.absolute(), log.absolute())

    def start(self, environment: Mapping[str, str] = os.environ) -> subprocess.Popen:
        """One single-threaded process. It stops, with a checkpoint, when this process dies."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "a") as output:
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
        return process


def outcome_of(exit_code: int) -> str:
    """What a worker's exit code means: ended, in use, stopped or failed."""
    # SIGTERM may stop it while it still starts.
    stopped = dict.fromkeys((EXIT_STOPPED, -signal.SIGTERM), "stopped")
    return ({0: "ended", EXIT_IN_USE: "in use"} | stopped).get(exit_code, "failed")
