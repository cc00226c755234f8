"""Base classes of agents' settings: what every agent has, and what those with a replay have."""

from dataclasses import dataclass, replace

from bnmodes.bounds import Count, Fraction, Positive, Whole, check_bounds
from bnmodes.envs.contract import EnvSpec
from bnmodes.errors import UsageError
from bnmodes.protocol import AgentCapabilities, Protocol
from bnmodes.replay.ring import Replay


@dataclass(frozen=True)
class AgentSettings:
    """Implements the contract `agents.agent.Settings`, but for `capabilities`."""

    protocol: Protocol
    """Parameters, batch, statistics and updates of each forward."""
    num_envs: Count = 1
    """Environments that act side by side (number)."""

    @property
    def env_rows(self) -> int:
        return self.num_envs

    def capabilities(self, evaluation_rows: int) -> AgentCapabilities:
        raise NotImplementedError

    def memory_bytes(self, env: EnvSpec) -> int:
        return 0

    def for_timing(self) -> "AgentSettings":
        return self

    def notes(self) -> list[str]:
        return []

    def warnings(self, total_decisions: int) -> list[str]:
        return []

    def validate(self, evaluation_rows: int) -> None:
        check_bounds(self)
        self.protocol.validate(self.capabilities(evaluation_rows))


@dataclass(frozen=True)
class ReplaySettings(AgentSettings):
    """Settings of an agent that learns from minibatches of a replay."""

    updates_per_decision: Positive = 1.0
    """UTD: optimizer steps for each decision; 0.25 is one every four decisions."""
    batch_size: Count = 32
    """Transitions in a minibatch (number)."""
    gamma: Fraction = 0.99
    """Discount of one decision."""
    replay_capacity: Count = 1_000_000
    """Newest transitions kept (number)."""
    learning_starts_decisions: Whole = 20_000
    """Decisions before the first update."""

    def memory_bytes(self, env: EnvSpec) -> int:
        return Replay(env, self.num_envs, self.replay_capacity).nbytes

    def for_timing(self) -> "ReplaySettings":
        return replace(self, replay_capacity=1_000, learning_starts_decisions=0)

    def warnings(self, total_decisions: int) -> list[str]:
        if total_decisions > self.learning_starts_decisions:
            return []
        return [
            f"learning starts at decision {self.learning_starts_decisions:,}, after the end of "
            "this run (learning_starts_decisions)"
        ]

    def validate(self, evaluation_rows: int) -> None:
        super().validate(evaluation_rows)
        least = max(self.batch_size, self.num_envs)
        if self.replay_capacity < least:
            raise UsageError(
                f"replay_capacity is {self.replay_capacity}, but must be at least {least}."
            )


@dataclass(frozen=True)
class ValueRange:
    """Mixed into settings with a histogram of values: its two ends."""

    v_min: float = -10.0
    """Lowest value of the histogram (discounted return)."""
    v_max: float = 10.0
    """Highest value of the histogram (discounted return)."""

    def validate(self, evaluation_rows: int) -> None:
        super().validate(evaluation_rows)
        if not self.v_min < self.v_max:
            raise UsageError(f"v_min {self.v_min} must be below v_max {self.v_max}.")
