"""Each role of a trained agent: what it declares beside what is observed."""

from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bnmodes.agents.base import Agent, forward_as
from bnmodes.audit import Audit, audit
from bnmodes.envs.base import VectorEnv
from bnmodes.envs.registry import make_env
from bnmodes.protocol import Protocol, Role
from bnmodes.streams import numpy_stream
from bnmodes.training.record import RunFolder
from bnmodes.training.run import build_agent

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
    obs, successors = _play(agent, env, rng)
    setting = spec.config.setting(spec.evaluation.episodes)
    audits = []
    for role, forward in spec.config.protocol.roles().items():
        count = setting.rows[role][forward.population]
        population = successors if role == "bootstrap" else obs
        # A single row has no batch-mates to exchange: its forward is given two.
        rows = rng.choice(len(population), max(2, count), replace=count > len(population))
        used, observed = _observe(agent, spec.config.protocol, role, population[rows])
        audits.append(
            RoleAudit(
                role,
                f"{count} × {forward.population}",
                declared=_in_words([forward.params], Audit.promised_by(forward)),
                observed=_in_words(used, observed),
            )
        )
    return audits, notes


def _play(agent: Agent, env: VectorEnv, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """What was seen in a few games, and what came of it."""
    seen, successors = [env.reset()], []
    for _ in range(_DECISIONS):
        explore = rng.random(env.num_envs) < _EXPLORE
        random_actions = rng.integers(env.spec.num_actions, size=env.num_envs)
        step = env.step(np.where(explore, random_actions, agent.greedy(seen[-1])))
        seen.append(step.obs)
        successors.append(step.successor)
    return torch.from_numpy(np.concatenate(seen)), torch.from_numpy(np.concatenate(successors))


@torch.no_grad()
def _observe(agent: Agent, protocol: Protocol, role: Role, x: Tensor) -> tuple[list[str], Audit]:
    """The networks that its output comes from, and the audit of its forward."""

    def output(changed: str | None = None) -> Tensor:
        networks = deepcopy(agent.networks)
        if changed is not None:
            networks[changed].head.bias.add_(1)
        return forward_as(role, protocol, networks, x)

    plain = output()
    used = [name for name in agent.networks if not torch.equal(plain, output(name))]
    return used, audit(
        lambda rows: forward_as(role, protocol, agent.networks, rows),
        x,
        modules=list(agent.networks.values()),
    )


def _in_words(networks: list[str], found: Audit) -> str:
    writes = ["writes"] if found.writes_stored_moments else []
    return ", ".join([" and ".join(networks), found.statistics, *writes])
