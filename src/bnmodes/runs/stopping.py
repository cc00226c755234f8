"""How a run or a study is asked to stop, and says that it did."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)


class Stopped(Exception):
    """The run was asked to stop; it has kept a checkpoint."""

    def __init__(self, decision: int):
        super().__init__(decision)
        self.decision = decision


@dataclass
class StopRequest:
    """Set by Ctrl-C, a termination signal, a closed terminal, or SIGUSR2, with which a batch system
    says that a job's time is nearly over; looked at between decisions."""

    requested: bool = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        def request(signum, frame):
            if self.requested and signum == signal.SIGINT:
                raise KeyboardInterrupt  # a second Ctrl-C does not wait for the checkpoint
            self.requested = True

        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread is told of signals
            return
        before = {s: signal.signal(s, request) for s in _STOP_SIGNALS}
        try:
            yield
        finally:
            for signum, handler in before.items():
                signal.signal(signum, handler)
