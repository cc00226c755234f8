"""One run in a process of its own.

`python -m bnmodes.studies.launch.worker FOLDER LAUNCHER_PROCESS CHECKPOINT_MINUTES EXECUTION
[SINK …]`,
with the run's specification on its standard input; both of these are JSON.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch

from bnmodes.errors import UsageError
from bnmodes.execution import Execution
from bnmodes.runs.folder import FolderInUse
from bnmodes.runs.loop import Stopped, train
from bnmodes.runs.spec import spec_from_json
from bnmodes.studies.launch.work_order import EXIT_IN_USE, EXIT_STOPPED


def stop_with(launcher: int) -> None:
    """Whoever started it and dies takes it along; it keeps a checkpoint first."""

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def main() -> int:
    folder, launcher, checkpoint_minutes, execution, *sinks = sys.argv[1:]
    stop_with(int(launcher))
    torch.set_num_threads(1)
    spec = spec_from_json(json.load(sys.stdin))
    try:
        train(
            spec,
            Path(folder),
            checkpoint_minutes=float(checkpoint_minutes),
            show_progress=False,
            sinks=tuple(sinks),
            execution=Execution(**json.loads(execution)),
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
