"""What is measured inside the networks of an actor-critic, each role on its real population."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from bnmodes.agents.actor_critic_roles import Measurable, UpdateRows, policy, update_rows
from bnmodes.agents.diagnostic_rows import newest_acting_batches
from bnmodes.diagnostics import (
    ActionLogits,
    RoleForward,
    Row,
    ValuesOfRows,
    halves_mismatch,
    layer_motion,
    measure_roles,
    passes,
    rounded,
    rows_needed,
)
from bnmodes.networks.actor_critic import named_kernels
from bnmodes.protocol import BATCH, Mode, Role


@torch.no_grad()
def diagnose(agent: Measurable, rng: np.random.Generator) -> Row:
    """Empty until critic and policy have both been updated."""
    optimizers = list(agent.optimizers.values())
    if not all(optimizer.has_stepped for optimizer in optimizers):
        return {}
    critic, batch_size = agent.critics["online"], agent.settings.batch_size
    minibatches = math.ceil(rows_needed(critic.heads.twins[0]) / batch_size)
    drawn = agent.transitions(minibatches * batch_size, rng)
    noise = torch.Generator().manual_seed(int(rng.integers(2**63 - 1)))
    batches = [
        update_rows(agent, transitions, noise)
        for transitions in zip(*(part.split(batch_size) for part in drawn), strict=True)
    ]
    acting = newest_acting_batches(agent.replay, minibatches, batch_size, rng)
    row = measure_roles(role_forwards(agent, batches, list(acting)), rng)
    if agent.settings.has_batchnorm:
        joined = [rows.joined for rows in batches]
        together = RoleForward(critic, BATCH, joined, ValuesOfRows(agent.q_values))
        row |= halves_mismatch(passes(together), rng)
    row["improve_critic/max_q"] = _best_corner(agent, batches)
    kernels = critic.kernels() | named_kernels("actor", agent.actors["online"].kernels())
    return rounded(row | layer_motion(kernels, optimizers))


def role_forwards(
    agent: Measurable, batches: Sequence[UpdateRows], acting: Sequence[Tensor]
) -> dict[Role, RoleForward]:
    """Evaluate has none: its rows exist only while it plays."""
    protocol, values, logits = agent.settings.protocol, ValuesOfRows(agent.q_values), ActionLogits()

    def critic(role: Role) -> RoleForward:
        forward, count = getattr(protocol, role), len(batches[0].obs)
        network = agent.critics[forward.params]
        if forward.population == "joined":
            kept = slice(count, None) if role == "bootstrap" else slice(0, count)
            return RoleForward(network, forward, [b.joined for b in batches], values, kept)
        own = {"predict": "now", "bootstrap": "following", "improve_critic": "proposed"}[role]
        return RoleForward(network, forward, [getattr(b, own) for b in batches], values)

    def policy_as(role: Role, rows: Sequence[Tensor]) -> RoleForward:
        forward = getattr(protocol, role)
        return RoleForward(policy(agent, forward.params), forward, rows, logits)

    features = [b.features for b in batches]
    actor = agent.actors[protocol.improve.params]
    return {
        "predict": critic("predict"),
        "bootstrap": critic("bootstrap"),
        "act": policy_as("act", acting),
        "improve": RoleForward(actor, protocol.improve, features, logits, prefix="actor_"),
        "improve_critic": critic("improve_critic"),
        "bootstrap_actor": policy_as("bootstrap_actor", [b.next_obs for b in batches]),
    }


def _best_corner(agent: Measurable, batches: Sequence[UpdateRows]) -> float:
    """Mean over states of the best one-hot action's Q, beside the mean Q of what is proposed."""
    forward, device = agent.settings.protocol.improve_critic, batches[0].features.device
    corners = torch.eye(agent.num_actions, device=device)
    mode, heads = Mode(statistics=forward.statistics), agent.heads[forward.params]
    best = []
    for rows in batches:
        states = rows.features.repeat_interleave(len(corners), 0)
        output = heads((states, corners.repeat(len(rows.features), 1)), mode)
        q = agent.q_values(output).mean(0).unflatten(0, (-1, len(corners)))  # [B, actions]
        best.append(float(q.amax(-1).mean()))
    return float(np.mean(best))
