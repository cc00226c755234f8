"""One run in a process of its own: `python -m bnmodes.studies.worker FOLDER [SINK …] < spec`."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch

from bnmodes.errors import UsageError
from bnmodes.training.record import FolderInUse
from bnmodes.training.run import Stopped, train
from bnmodes.training.spec import spec_from_json

EXIT_IN_USE = 75
EXIT_STOPPED = 130


def stop_with_parent() -> None:
    """A launcher that dies takes its workers with it; each keeps a checkpoint first."""
    launcher = os.getppid()

    def watch() -> None:
        while os.getppid() == launcher:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def main() -> int:
    stop_with_parent()
    torch.set_num_threads(1)
    spec = spec_from_json(json.load(sys.stdin))
    try:
        train(spec, Path(sys.argv[1]), show_progress=False, sinks=tuple(sys.argv[2:]))
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
