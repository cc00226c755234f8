"""One run in a process of its own.

`python -m bnmodes.studies.launch.worker FOLDER LAUNCHER_PROCESS`, with a task (see
`worker_command`) as JSON on its standard input. The users' own files that it imports are those that
the launcher's command line named.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch

from bnmodes import plugins
from bnmodes.errors import UsageError
from bnmodes.execution import Execution, keep_freed_memory
from bnmodes.runs.folder import FolderInUse
from bnmodes.runs.loop import Stopped, train
from bnmodes.runs.spec import spec_from_json
from bnmodes.studies.launch.worker_command import EXIT_IN_USE, EXIT_STOPPED


def stop_with(launcher: int) -> None:
    """Checkpoint and stop when the launcher's process dies."""

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def main() -> int:
    folder, launcher = sys.argv[1:]
    stop_with(int(launcher))
    torch.set_num_threads(1)
    keep_freed_memory()
    task = json.load(sys.stdin)
    try:
        for path, sha256 in task["plugins"].items():
            if plugins.load(path).sha256 != sha256:
                raise UsageError(f"{path} has changed since its study was started: start it again.")
        train(
            spec_from_json(task["spec"]),
            Path(folder),
            checkpoint_minutes=task["checkpoint_minutes"],
            show_progress=False,
            sinks=tuple(task["sinks"]),
            execution=Execution(**task["execution"]),
            keep_networks=task["keep_networks"],
        )
    except FolderInUse:
        return EXIT_IN_USE
    except Stopped:
        return EXIT_STOPPED
    except UsageError as error:
        print(f"bnmodes: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
