"""MR.Q's networks: an embedding of state and action that predicts the next state's embedding."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from bnmodes.networks.actor_critic import (
    DenseNetwork,
    dense_row_norm,
    named,
    named_kernels,
    traced_twins,
    twin_kernels,
)
from bnmodes.networks.value import HiddenLayer, Trace, Unnormalised
from bnmodes.norm.layers import ModedModule
from bnmodes.protocol import Mode


class StateActionEmbedding(ModedModule):
    """zsa: the state's embedding and an embedding of the action vector, mixed."""

    def __init__(self, state_units: int, num_actions: int, action_units: int, units: int):
        super().__init__()
        self.action = nn.Linear(num_actions, action_units)
        inputs = state_units + action_units
        self.mix = DenseNetwork(inputs, [units] * 2, units, dense_row_norm, F.elu)

    def run(
        self, rows: tuple[Float[Tensor, "B state"], Float[Tensor, "B actions"]], mode: Mode
    ) -> Float[Tensor, "B units"]:
        state, action = rows
        return self.mix(torch.cat([state, F.elu(self.action(action))], dim=1), mode)

    def traced(
        self, rows: tuple[Float[Tensor, "B state"], Float[Tensor, "B actions"]], mode: Mode
    ) -> Trace:
        state, action = rows
        linear = self.action(action)
        layer = HiddenLayer("action", Unnormalised(), linear, F.elu(linear))
        mixed = self.mix.traced(torch.cat([state, layer.units], dim=1), mode)
        return mixed._replace(layers=[layer, *mixed.layers])

    def kernels(self) -> dict[str, Tensor]:
        return {"action": self.action.weight} | self.mix.kernels()


class EmbeddedHeads(ModedModule):
    """Two value networks on one embedding of state and action."""

    def __init__(self, embedding: StateActionEmbedding, units: int):
        super().__init__()
        self.embedding = embedding
        self.twins = nn.ModuleList(
            DenseNetwork(units, [units] * 3, 1, dense_row_norm, F.elu) for _ in range(2)
        )

    def run(
        self, rows: tuple[Float[Tensor, "B state"], Float[Tensor, "B actions"]], mode: Mode
    ) -> Float[Tensor, "2 B 1"]:
        x = self.embedding(rows, mode)
        return torch.stack([twin(x, mode) for twin in self.twins])

    def traced(
        self, rows: tuple[Float[Tensor, "B state"], Float[Tensor, "B actions"]], mode: Mode
    ) -> Trace:
        embedded = self.embedding.traced(rows, mode)
        twins = traced_twins(self.twins, embedded.output, mode)
        return twins._replace(layers=named("embedding", embedded.layers) + twins.layers)

    def kernels(self) -> dict[str, Tensor]:
        return named_kernels("embedding", self.embedding.kernels()) | twin_kernels(self.twins)


class Prediction(NamedTuple):
    terminated: Float[Tensor, " B"]
    next_state: Float[Tensor, "B state"]
    reward_logits: Float[Tensor, "B bins"]


class ModelHead(nn.Module):
    """What the embedding says will follow; linear, so that the embedding does the work."""

    def __init__(self, units: int, state_units: int, bins: int):
        super().__init__()
        self.sizes = (1, state_units, bins)
        self.linear = nn.Linear(units, sum(self.sizes))

    def forward(self, x: Float[Tensor, "B units"]) -> Prediction:
        terminated, next_state, reward_logits = self.linear(x).split(self.sizes, dim=1)
        return Prediction(terminated.squeeze(1), next_state, reward_logits)
