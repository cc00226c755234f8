"""What is measured: an agent's arm on a game, with so many threads, eager or compiled."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Case:
    """One line of the benchmark."""

    agent: str
    arm: str
    env: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from the arm's, by dotted names."""
    all_cores: bool = False
    """Every core of the machine, or one."""
    compile: bool = False
    quick: bool = False
    """A part of the quick set."""

    @property
    def name(self) -> str:
        changed = "".join(f" {_SHORT.get(k, k)} {v}" for k, v in self.changes.items())
        how = " all-cores" * self.all_cores + " compiled" * self.compile
        return f"{self.agent} {self.arm} {self.env}{changed}{how}"


_SHORT = {"updates_per_decision": "UTD"}

CASES = (
    Case("c51", "none", "atari/Pong", quick=True),
    Case("c51", "bn-batch", "atari/Pong", quick=True),
    Case("c51", "none", "atari/Pong", {"updates_per_decision": 1.0}, quick=True),
    Case("c51", "bn-batch", "atari/Pong", {"updates_per_decision": 1.0}, quick=True),
    Case("c51", "bn-batch", "atari/Pong", {"updates_per_decision": 4.0}),
    Case("c51", "bn-batch", "atari/Pong", {"updates_per_decision": 1.0}, all_cores=True),
    Case("c51", "bn-batch", "atari/Pong", {"updates_per_decision": 1.0}, compile=True),
    Case("c51", "bn-batch", "atari/Pong", {"updates_per_decision": 1.0, "batch_size": 128}),
    Case("pqn", "ln", "atari/Pong"),
    Case("pqn", "bn-batch", "atari/Pong", quick=True),
    Case("pqn", "bn-batch", "atari/Pong", all_cores=True),
    Case("c51", "bn-batch", "minatar/breakout", quick=True),
    Case("c51", "bn-batch", "minatar/breakout", {"updates_per_decision": 1.0}),
    Case("c51", "bn-batch", "minatar/breakout", {"updates_per_decision": 4.0}),
    Case("pqn", "ln", "minatar/breakout", quick=True),
    Case("pqn", "bn-batch", "minatar/breakout", quick=True),
    Case("pqn", "bn-batch", "minatar/breakout", compile=True),
    Case("pqn", "bn-batch", "minatar/space_invaders"),
    Case("pqn", "bn-batch", "minatar/asterix"),
    Case("pqn", "bn-batch", "minatar/freeway"),
    Case("td3", "none", "minatar/breakout", quick=True),
    Case("xqc", "bn-joined", "minatar/breakout", quick=True),
    Case("crossq", "batchnorm", "minatar/breakout", quick=True),
    Case("mrq", "ln", "minatar/breakout", quick=True),
    Case("td3", "none", "atari/Pong-sticky"),
    Case("xqc", "bn-joined", "atari/Pong-sticky"),
    Case("mrq", "ln", "atari/Pong-sticky"),
)
