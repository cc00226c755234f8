"""Each role of a trained agent: what it declares beside what is observed."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from bnmodes.agents.actor_critic import ActorCritic
from bnmodes.agents.actor_critic_roles import (
    Transitions,
    role_networks,
    update_rows,
)
from bnmodes.agents.agent import Agent, forward_as
from bnmodes.audit import Audit, audit
from bnmodes.envs.contract import VectorEnv
from bnmodes.envs.registry import make_env
from bnmodes.protocol import Forward, Protocol, Role
from bnmodes.norm.renorm import BatchRenorm
from bnmodes.streams import numpy_stream
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.loop import build_agent

_DECISIONS = 100
_EXPLORE = 0.5
"""Share of random actions, so that an agent which stands still sees different rows too."""


@dataclass(frozen=True)
class RoleAudit:
    role: Role
    rows: str
    """How many of which population."""
    declared: str
    observed: str

    @property
    def agrees(self) -> bool:
        return self.declared == self.observed


def audit_run(folder: RunFolder, seed: int) -> tuple[list[RoleAudit], list[str]]:
    """Of a finished run or its newest checkpoint, on rows of games played now; and notes."""
    spec = folder.spec()
    rng = numpy_stream(seed, "audited games")
    env = make_env(spec.env, spec.evaluation.episodes, int(rng.integers(2**31 - 1000)))
    agent = build_agent(spec, env)
    networks, notes = folder.networks()
    agent.load_networks(networks)
    played = _play(agent, env, rng)
    setting, protocol = spec.config.setting(spec.evaluation.episodes), spec.config.protocol
    audits = []
    for role, forward in protocol.roles().items():
        count = setting.rows[role][forward.population]
        transitions = count // 2 if forward.population == "joined" else count
        # A single row has no batch-mates to exchange: its forward is given two.
        size, held = max(2, transitions), len(played[0])
        places = rng.choice(held, size, replace=size > held)
        rows = tuple(part[places] for part in played)
        declared, batch, output = _role_forward(agent, protocol, role, rows, rng)
        used, observed = _observe(agent, output, batch)
        promised = _promised(agent, declared, forward)
        audits.append(
            RoleAudit(
                role,
                f"{count} × {forward.population}",
                declared=_in_words(declared, promised),
                observed=_in_words(used, observed),
            )
        )
    return audits, notes


def _play(agent: Agent, env: VectorEnv, rng: np.random.Generator) -> Transitions:
    """What was seen in a few games, what was done, and what came of it."""
    obs, played = env.reset(), []
    for _ in range(_DECISIONS):
        explore = rng.random(env.num_envs) < _EXPLORE
        random_actions = rng.integers(env.spec.num_actions, size=env.num_envs)
        actions = np.where(explore, random_actions, agent.greedy(obs))
        step = env.step(actions)
        played.append((obs, actions, step.next_obs))
        obs = step.obs
    seen, done, came = (np.concatenate(parts) for parts in zip(*played, strict=True))
    return torch.from_numpy(seen), torch.from_numpy(done), torch.from_numpy(came)


def _role_forward(
    agent: Agent, protocol: Protocol, role: Role, rows: Transitions, rng: np.random.Generator
) -> tuple[list[str], Tensor, Callable[[Tensor], Tensor]]:
    """Names of its networks, a batch, and its forward of that batch.

    An actor-critic's rows have several parts: there the batch holds their places.
    """
    forward = getattr(protocol, role)
    if not isinstance(agent, ActorCritic):
        x = rows[2] if role == "bootstrap" else rows[0]
        return [forward.params], x, lambda x: forward_as(role, protocol, agent.networks, x)
    noise = torch.Generator().manual_seed(int(rng.integers(2**63 - 1)))
    given = update_rows(agent, rows, noise)
    places = torch.arange(len(given.obs))
    names = role_networks(role, forward)
    return names, places, lambda places: agent.role_output(role, given.at(places))


@torch.no_grad()
def _observe(
    agent: Agent, forward: Callable[[Tensor], Tensor], batch: Tensor
) -> tuple[list[str], Audit]:
    """The networks that its output comes from, and the audit of its forward."""
    before = {name: deepcopy(network.state_dict()) for name, network in agent.networks.items()}

    def output(changed: str | None = None) -> Tensor:
        if changed is not None:
            for parameter in agent.networks[changed].parameters():
                factors = torch.linspace(0.5, 1.5, parameter.numel())  # no norm takes these back
                parameter.mul_(factors.view(parameter.shape))
        result = forward(batch)
        for name, network in agent.networks.items():
            network.load_state_dict(before[name])
        return result

    plain = output()
    used = [name for name in agent.networks if not torch.equal(plain, output(name))]
    return used, audit(forward, batch, modules=list(agent.networks.values()))


def _promised(agent: Agent, networks: list[str], forward: Forward) -> Audit:
    """Batch renormalisation holds batch statistics near the stored moments, after its warm-up."""
    promised = Audit.promised_by(forward)
    layers = [layer for name in networks for layer in agent.networks[name].modules()]
    if forward.statistics == "batch" and any(
        isinstance(layer, BatchRenorm) and layer.updates >= layer.warmup_updates for layer in layers
    ):
        return replace(promised, reads_stored_moments=True)
    return promised


def _in_words(networks: list[str], found: Audit) -> str:
    writes = ["writes"] if found.writes_stored_moments else []
    return ", ".join([" and ".join(networks).replace("_", " "), found.statistics, *writes])
