"""How runs are executed: the one small interface that every engine stands behind."""

import importlib.util
from pathlib import Path
from typing import Protocol, runtime_checkable

from bnmodes.errors import UsageError
from bnmodes.studies.launch.outcome import Outcome
from bnmodes.studies.study import StudyRun


@runtime_checkable
class Launcher(Protocol):
    """Submit a run, poll, cancel. The study's bookkeeping does not know what is behind it."""

    poll_seconds: float
    """Between two polls; a cluster's controller is not asked five times a second."""

    def free_places(self) -> int:
        """How many more runs it takes now."""

    def submit(self, run: StudyRun, folder: Path, log: Path) -> None:
        """Begin, or go on with, the run in `folder`; its output is appended to `log`."""

    def poll(self) -> dict[Path, Outcome]:
        """Runs that ended since the last call, by folder."""

    def cancel(self) -> None:
        """Ask every run to stop, and wait until each has kept its checkpoint."""


def require_engine(package: str, extra: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise UsageError(
            f"--launcher {extra} needs {package}, which is not installed: "
            f"pip install 'bnmodes[{extra}]'."
        )
