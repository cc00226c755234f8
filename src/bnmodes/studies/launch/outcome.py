"""How a worker ended, as every engine tells the schedule."""

import signal
from dataclasses import dataclass
from typing import Literal

EXIT_DAMAGED = 65
EXIT_FILES = 74
EXIT_IN_USE = 75
EXIT_HANGING = 124
EXIT_STOPPED = 130


@dataclass(frozen=True)
class Outcome:
    kind: Literal["ended", "in use", "stopped", "damaged", "failed"]
    reason: str = ""
    """Of a failure, in words: the run's log may be on a disk that is full."""


ENDED = Outcome("ended")
STOPPED = Outcome("stopped")

_BY_EXIT_CODE = {
    0: ENDED,
    EXIT_IN_USE: Outcome("in use"),
    EXIT_STOPPED: STOPPED,
    -signal.SIGTERM: STOPPED,  # which may come while it still starts
    EXIT_DAMAGED: Outcome("damaged"),
    2: Outcome("failed", "it was refused"),
    EXIT_FILES: Outcome("failed", "its files could not be written: is the disk full?"),
    EXIT_HANGING: Outcome("failed", "it made no progress and was killed"),
    -signal.SIGKILL: Outcome("failed", "it was killed (SIGKILL): was the memory full?"),
}


def outcome_of(exit_code: int) -> Outcome:
    """What a worker's exit code means; −N is death by signal N."""
    if exit_code in _BY_EXIT_CODE:
        return _BY_EXIT_CODE[exit_code]
    if exit_code < 0:
        return Outcome("failed", f"it was ended by signal {-exit_code}")
    return Outcome("failed", f"exit code {exit_code}")
