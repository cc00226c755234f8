"""What the training loop asks of an agent, and how an agent asks for a forward."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from bnmodes import protocol
from bnmodes.diagnostics import Row
from bnmodes.envs.contract import Observations, Step
from bnmodes.errors import UsageError
from bnmodes.norm.layers import ModedModule


@runtime_checkable
class Agent(Protocol):
    """Decisions in, learning inside; it knows nothing of files, studies or the command line."""

    networks: Mapping[str, ModedModule]

    def begin(self, obs: Observations) -> None:
        """New games start here in every environment."""

    def act(self, obs: Observations) -> Int64[np.ndarray, " envs"]:
        """Actions while training, by the act role, with exploration."""

    def observe(self, actions: Int64[np.ndarray, " envs"], step: Step) -> None:
        """What the actions led to; counts the decisions."""

    def learn(self) -> None:
        """All updates that are due now."""

    def greedy(self, obs: Observations) -> Int64[np.ndarray, " envs"]:
        """Actions by the evaluate role, without exploration; changes nothing."""

    def take_metrics(self) -> dict[str, float]:
        """Means over the updates since the last call, and the present settings."""

    def diagnose(self, obs: Observations, rng: np.random.Generator) -> Row:
        """See `bnmodes.diagnostics`; empty before the first update, and changes nothing.

        `obs` is what is acted on next; rows are drawn with `rng`, never with the agent's streams.
        """

    def state(self) -> dict[str, Any]: ...

    def load_state(self, state: dict[str, Any]) -> None: ...

    def load_networks(self, networks: dict[str, Any]) -> None:
        """Only `state()["networks"]`: enough to play, not to train."""


def forward_as(
    role: protocol.Role,
    declared: protocol.Protocol,
    networks: Mapping[protocol.Params, ModedModule],
    x: Tensor | tuple[Tensor, ...],
) -> Tensor:
    """The one way an agent runs a network: the role says whose parameters and which mode."""
    forward = getattr(declared, role)
    return networks[forward.params](x, forward)


def linear_epsilon(config: Any, share_of_run: float) -> float:
    """ε falls linearly over `epsilon_decay_fraction` of the run."""
    decay = config.epsilon_decay_fraction
    done = min(1.0, share_of_run / decay) if decay else 1.0
    return config.epsilon_start + done * (config.epsilon_end - config.epsilon_start)


def never_learns_note(config: Any, total_decisions: int) -> list[str]:
    if total_decisions > config.learning_starts_decisions:
        return []
    return [
        f"learning starts at decision {config.learning_starts_decisions:,}, after the end of "
        "this run (--learning-starts-decisions)"
    ]


def of_action(
    output: Float[Tensor, "B actions atoms"], action: Int64[Tensor, " B"]
) -> Float[Tensor, "B atoms"]:
    """What a head says of each row's own action."""
    index = action[:, None, None].expand(-1, 1, output.shape[-1])
    return output.gather(1, index).squeeze(1)


def require_between(config: Any, **bounds: tuple[int | float, int | float]) -> None:
    """Refuse a setting outside its bounds (inclusive)."""
    for name, (low, high) in bounds.items():
        value = getattr(config, name)
        if not low <= value <= high:
            allowed = f"at least {low}" if high == math.inf else f"between {low} and {high}"
            raise UsageError(f"{name} is {value}, but must be {allowed}.")


def require_above_zero(config: Any, *names: str) -> None:
    for name in names:
        if not getattr(config, name) > 0:
            raise UsageError(f"{name} is {getattr(config, name)}, but must be above 0.")


def require_finite(config: Any) -> None:
    for f in fields(config):
        value = getattr(config, f.name)
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{f.name} is {value}, but must be a finite number.")


@dataclass
class Means:
    """Means of a few numbers over updates, summed where they are computed."""

    names: tuple[str, ...]
    device: str = "cpu"
    sums: Tensor = field(init=False)
    count: int = 0

    def __post_init__(self):
        self.sums = torch.zeros(len(self.names), device=self.device)

    def add(self, values: Float[Tensor, " names"]) -> None:
        self.sums += values
        self.count += 1

    def state(self) -> dict[str, Any]:
        return {"sums": self.sums, "count": self.count}

    def load_state(self, state: dict[str, Any]) -> None:
        self.sums.copy_(state["sums"])
        self.count = state["count"]

    def take(self) -> dict[str, float]:
        """Empty before the first update, so that no made-up number is recorded."""
        if self.count == 0:
            return {}
        means = dict(zip(self.names, (self.sums / self.count).tolist(), strict=True))
        self.sums.zero_()
        self.count = 0
        return means
