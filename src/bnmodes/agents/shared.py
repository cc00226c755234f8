"""Small pieces that several agents use: first weights, running a role, ε, a chosen action's
output, Polyak averaging, means."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from bnmodes.networks.layers import Scheme, initialise
from bnmodes.norm.layers import FirstRows, ModedModule
from bnmodes.protocol import Forward, Mode, Protocol, Role
from bnmodes.streams import torch_stream


def initialise_on(device: str, networks: Iterable[nn.Module], scheme: Scheme, seed: int) -> None:
    """Draw the networks' first weights, one network after the other, and move them to the device.
    They are drawn on the host: the same whatever the device."""
    rng = torch_stream(seed, "network")
    for network in networks:
        initialise(network, scheme, rng)
        network.to(device)


def forward_as(
    role: Role,
    protocol: Protocol,
    networks: Mapping[Any, ModedModule],
    x: Tensor | tuple[Tensor, ...],
) -> Tensor:
    """The one way an agent runs a network: the role says whose parameters and which mode."""
    forward = getattr(protocol, role)
    return networks[forward.params](x, forward)


def mode_with(forward: Forward, companions: int) -> Mode:
    """The mode of a batch that begins with so many rows beside the role's own. With the role's own
    moments they are rows of the batch like any other, else they alone give its statistics."""
    return forward if forward.moments == "own" else FirstRows(rows=companions)


def needs_spare_rows(forward: Forward) -> bool:
    """Whether further rows must be drawn for this forward's batch."""
    return forward.population == "acting+replay" or forward.moments in ("independent", "pool")


def linear_epsilon(settings: Any, share_of_run: float) -> float:
    """ε falls linearly from `epsilon_start` over `epsilon_decay_fraction` of the run."""
    decay = settings.epsilon_decay_fraction
    done = min(1.0, share_of_run / decay) if decay else 1.0
    return settings.epsilon_start + done * (settings.epsilon_end - settings.epsilon_start)


def of_action(
    output: Float[Tensor, "B actions atoms"], action: Int64[Tensor, " B"]
) -> Float[Tensor, "B atoms"]:
    """The head's output for each row's own action."""
    index = action[:, None, None].expand(-1, 1, output.shape[-1])
    return output.gather(1, index).squeeze(1)


@torch.no_grad()
def move_towards(target: Iterable[Tensor], online: Iterable[Tensor], weight: float) -> None:
    """Polyak averaging: target ← (1 − weight)·target + weight·online."""
    torch._foreach_lerp_(list(target), list(online), weight)


@dataclass
class Means:
    """Means of a few numbers over updates, summed on the device where they are computed."""

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
        """The means by name, and start again; empty where there was no update."""
        if self.count == 0:
            return {}
        means = dict(zip(self.names, (self.sums / self.count).tolist(), strict=True))
        self.sums.zero_()
        self.count = 0
        return means
