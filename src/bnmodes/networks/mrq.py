"""MR.Q's networks: an embedding of state and action that predicts the next state's embedding."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bnmodes.networks.actor_critic import Critic, DenseNetwork, StateAction
from bnmodes.networks.layers import Dense, LayerStack
from bnmodes.networks.norms import layer_norm_on_dense
from bnmodes.networks.torsos import Torso, resolve_torso
from bnmodes.norm.layers import ModedModule
from bnmodes.protocol import Mode


class StateActionEmbedding(ModedModule):
    """The paper's z_sa: the state's embedding mixed with an embedding of the action vector."""

    def __init__(self, state_units: int, num_actions: int, action_units: int, units: int):
        super().__init__()
        self.action = LayerStack(
            (num_actions,), [Dense(action_units)], ["embedding_action"], activation=nn.ELU
        )
        self.mix = DenseNetwork(
            {"state": state_units, "action": action_units},
            [units] * 2,
            units,
            norm=layer_norm_on_dense,
            activation=nn.ELU,
            prefix="embedding_",
        )

    def run(self, pair: StateAction, mode: Mode) -> Float[Tensor, "B units"]:
        state, action = pair
        return self.mix(torch.cat([state, self.action(action, mode)], dim=1), mode)


class EmbeddedHeads(ModedModule):
    """Two value networks on one embedding of state and action."""

    def __init__(self, embedding: StateActionEmbedding, units: int):
        super().__init__()
        self.embedding = embedding
        self.twins = nn.ModuleList(
            DenseNetwork(
                {"input": units},
                [units] * 3,
                1,
                norm=layer_norm_on_dense,
                activation=nn.ELU,
                prefix=prefix,
            )
            for prefix in ("critic1_", "critic2_")
        )

    def run(self, pair: StateAction, mode: Mode) -> Float[Tensor, "2 B 1"]:
        x = self.embedding(pair, mode)
        return torch.stack([twin(x, mode) for twin in self.twins])


class Prediction(NamedTuple):
    """What the model predicts of the next step."""

    terminated: Float[Tensor, " B"]
    next_state: Float[Tensor, "B state"]
    reward_logits: Float[Tensor, "B bins"]


class ModelHead(nn.Module):
    """Predicts the next step from the embedding; linear, so that the embedding does the work."""

    def __init__(self, units: int, state_units: int, bins: int):
        super().__init__()
        self.sizes = (1, state_units, bins)
        self.linear = nn.Linear(units, sum(self.sizes))

    def forward(self, x: Float[Tensor, "B units"]) -> Prediction:
        terminated, next_state, reward_logits = self.linear(x).split(self.sizes, dim=1)
        return Prediction(terminated.squeeze(1), next_state, reward_logits)


def mrq_networks(
    obs_shape: tuple[int, ...],
    num_actions: int,
    torso: str,
    pixel_scale: float,
    *,
    units: int,
    action_units: int,
    reward_bins: int,
) -> tuple[Critic, DenseNetwork, ModelHead]:
    """A critic, a policy on the features of its encoder, and a head of the model."""
    torso = resolve_torso(torso, obs_shape)
    encoder = Torso(
        obs_shape,
        torso,
        pixel_scale,
        pixel_offset=-0.5 if torso == "mrq" else 0.0,  # MinAtar's planes are binary
        norm=layer_norm_on_dense,
        activation=nn.ELU,
    )
    embedding = StateActionEmbedding(encoder.units, num_actions, action_units, units)
    actor = DenseNetwork(
        {"input": encoder.units},
        [units] * 2,
        num_actions,
        norm=layer_norm_on_dense,
        prefix="actor_",
    )
    critic = Critic(encoder, EmbeddedHeads(embedding, units))
    return critic, actor, ModelHead(units, encoder.units, reward_bins)
