import os
import signal

import pytest

from bnmodes.runs.loop import Loop


@pytest.fixture
def stop_at(monkeypatch):
    """Ask the run to stop as a signal would, right after a given decision (None: never)."""

    original = Loop._decide

    def arrange(decision):
        def decide(self):
            original(self)
            if self.decision == decision:
                os.kill(os.getpid(), signal.SIGTERM)

        monkeypatch.setattr(Loop, "_decide", decide)

    return arrange
