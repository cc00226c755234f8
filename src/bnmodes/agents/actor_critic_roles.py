"""The rows and the forward of each role of an actor-critic, outside of an update."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, fields
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from bnmodes.learning.optimizer import Optimizer
from bnmodes.learning.relaxed_actions import (
    gaussian_noise,
    gumbel_noise,
    gumbel_softmax,
    noisy_action,
    one_hot,
)
from bnmodes.networks.actor_critic import Critic, DenseNetwork, Encoder, Policy
from bnmodes.networks.value import ObservationRows
from bnmodes.norm.layers import ModedModule
from bnmodes.protocol import Forward, Params, Role
from bnmodes.replay.ring import Replay

Observation = ObservationRows
Transitions = tuple[Observation, Int64[Tensor, " B"], Observation]
"""Observations, actions and next observations."""


@runtime_checkable
class Measurable(Protocol):
    """An actor-critic, as far as its roles are looked at from outside."""

    config: Any
    num_actions: int
    replay: Replay
    critics: Mapping[Params, Critic]
    encoders: Mapping[Params, Encoder]
    heads: Mapping[Params, ModedModule]
    actors: Mapping[Params, DenseNetwork]
    optimizers: Mapping[str, Optimizer]

    def transitions(self, count: int, rng: np.random.Generator) -> Transitions: ...

    def q_values(self, output: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class UpdateRows:
    """What the forwards of one update are given."""

    obs: Observation
    action: Float[Tensor, "B actions"]
    """Of the replay, one-hot."""
    next_obs: Observation
    next_action: Float[Tensor, "B actions"]
    """Of the bootstrap's policy, one-hot."""
    features: Float[Tensor, "B units"]
    """That the policy reads in its own loss."""
    relaxed: Float[Tensor, "B actions"]
    """What it proposes there."""

    @property
    def now(self) -> tuple[Tensor, Tensor]:
        return self.obs, self.action

    @property
    def following(self) -> tuple[Tensor, Tensor]:
        return self.next_obs, self.next_action

    @property
    def joined(self) -> tuple[Tensor, Tensor]:
        return torch.cat([self.obs, self.next_obs]), torch.cat([self.action, self.next_action])

    @property
    def proposed(self) -> tuple[Tensor, Tensor]:
        return self.obs, self.relaxed

    def at(self, index: Int64[Tensor, " some"]) -> "UpdateRows":
        return UpdateRows(*(getattr(self, f.name)[index] for f in fields(self)))


@torch.no_grad()
def update_rows(agent: Measurable, transitions: Transitions, rng: torch.Generator) -> UpdateRows:
    """As an update makes them, but nothing is written."""
    obs, action, next_obs = transitions
    config, declared = agent.config, agent.config.protocol

    def as_declared(forward: Forward, networks: Mapping[Params, ModedModule], x: Tensor) -> Tensor:
        network = networks[forward.params]
        return (deepcopy(network) if forward.writes else network)(x, forward)

    next_features = as_declared(declared.bootstrap_actor, agent.encoders, next_obs)
    next_logits = as_declared(declared.bootstrap_actor, agent.actors, next_features)
    shape, device = tuple(next_logits.shape), next_logits.device
    next_action = noisy_action(
        gumbel_softmax(next_logits, config.temperature, gumbel_noise(shape, rng).to(device)),
        gaussian_noise(shape, rng).to(device),
        config.target_noise,
        config.target_noise_clip,
    )
    features = as_declared(declared.improve_critic, agent.encoders, obs)
    logits = as_declared(declared.improve, agent.actors, features)
    return UpdateRows(
        obs,
        one_hot(action, agent.num_actions),
        next_obs,
        one_hot(next_action, agent.num_actions),
        features,
        gumbel_softmax(logits, config.temperature, gumbel_noise(shape, rng).to(device)),
    )


def role_networks(role: Role, forward: Forward) -> list[str]:
    """Names of the networks that a role runs."""
    parts = {
        "predict": ["critic"],
        "bootstrap": ["critic"],
        "improve": ["actor"],
        "improve_critic": ["critic"],
    }.get(role, ["critic", "actor"])  # a policy reads the critic's encoder
    return [f"{forward.params}_{part}" for part in parts]


def policy(agent: Measurable, params: Params) -> Policy:
    return Policy(agent.encoders[params], agent.actors[params])
