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
from contextlib import suppress
from pathlib import Path

import torch

from bnmodes import plugins
from bnmodes.errors import DamagedError, UsageError
from bnmodes.execution import Execution, keep_freed_memory
from bnmodes.runs.folder import FolderInUse
from bnmodes.runs.loop import train
from bnmodes.runs.spec import spec_from_json
from bnmodes.runs.stopping import Stopped
from bnmodes.studies.launch.outcome import EXIT_DAMAGED, EXIT_FILES, EXIT_IN_USE, EXIT_STOPPED


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
        if not Path(folder).parent.is_dir():  # `train` would make it anew
            raise FileNotFoundError(f"{Path(folder).parent} has disappeared")
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
    except (UsageError, OSError) as error:
        with suppress(OSError):  # the log may be on the same full disk
            print(f"bnmodes: {error}", file=sys.stderr, flush=True)
        if isinstance(error, OSError):
            return EXIT_FILES
        return EXIT_DAMAGED if isinstance(error, DamagedError) else 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
