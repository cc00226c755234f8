"""Current and next state-action pairs as one batch, for critics with BatchNorm."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from bnmodes.agents.shared import forward_as
from bnmodes.networks.actor_critic import Critic, StateAction
from bnmodes.protocol import Params, Protocol, Role


def critic_as(
    role: Role,
    protocol: Protocol,
    critics: Mapping[Params, Critic],
    current: StateAction,
    next_pair: StateAction,
) -> Float[Tensor, "2 B outputs"]:
    """Both critics' outputs, of `current` (s, a) to predict and of `next_pair` (s′, a′) to
    bootstrap, within the batch that the role declares.

    In the joined population, [s; s′] × [a; a′] go through as one batch of 2B samples and the role
    keeps its half: both halves are normalised by the statistics of both.
    """
    own = next_pair if role == "bootstrap" else current
    if getattr(protocol, role).population != "joined":
        return forward_as(role, protocol, critics, own)
    first, second = forward_as(role, protocol, critics, joined(current, next_pair)).chunk(2, dim=1)
    return second if role == "bootstrap" else first


def joined(current: StateAction, next_pair: StateAction) -> StateAction:
    """[s; s′] × [a; a′], as one batch."""
    (obs, action), (next_obs, next_action) = current, next_pair
    return torch.cat((obs, next_obs)), torch.cat((action, next_action))
