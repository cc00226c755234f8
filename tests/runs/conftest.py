import os
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest

from bnmodes.runs.folder import RunFolder
from bnmodes.runs.loop import Loop, train
from bnmodes.runs.spec import RunSpec
from bnmodes.runs.stopping import Stopped


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


@pytest.fixture
def train_in_parts(stop_at):
    """Train a run that is stopped after each of these decisions, and goes on."""

    def in_parts(spec: RunSpec, path: Path, decisions: Iterable[int]) -> RunFolder:
        for decision in decisions:
            stop_at(decision)
            with pytest.raises(Stopped):
                train(spec, path)
        return train(spec, path)

    return in_parts
