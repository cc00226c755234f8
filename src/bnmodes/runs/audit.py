"""Each role of a trained agent: the forward that it declares beside the one that is observed."""

from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from bnmodes.agents.agent import Agent, DeclaresRoles
from bnmodes.agents.shared import needs_spare_rows
from bnmodes.auditing import Audit, audit
from bnmodes.diagnostics import RoleForward, Transitions
from bnmodes.envs.contract import VectorEnv
from bnmodes.envs.registry import make_env
from bnmodes.errors import UsageError
from bnmodes.norm.renorm import BatchRenorm
from bnmodes.protocol import Role
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.trained import load_agent
from bnmodes.streams import numpy_stream

_DECISIONS = 100
_EXPLORE = 0.5
"""Share of random actions, so that an agent which stands still sees different states too."""


@dataclass(frozen=True)
class RoleAudit:
    """One role: its networks, statistics and whether it updates running statistics, in words."""

    role: Role
    rows: str
    """Size and population of its batch, e.g. "32 × replay-obs"."""
    declared: str
    observed: str

    @property
    def agrees(self) -> bool:
        return self.declared == self.observed


def audit_run(folder: RunFolder, seed: int) -> tuple[list[RoleAudit], list[str]]:
    """The audit of each role, and notes about the stored networks.

    The agent is that of a finished run or of its newest checkpoint; the transitions are of episodes
    played for the audit.
    """
    spec = folder.spec()
    rng = numpy_stream(seed, "audited games")
    env = make_env(spec.env, spec.evaluation.episodes, int(rng.integers(2**31 - 1000)))
    agent, notes = load_agent(folder, spec, env)
    if not isinstance(agent, DeclaresRoles):
        raise UsageError(
            f"{spec.agent} does not show its forwards: give its class a method `role_forwards` "
            "(see bnmodes.agents.agent.DeclaresRoles)."
        )
    played = _play(agent, env, rng)
    offered, protocol = spec.settings.capabilities(spec.evaluation.episodes), spec.settings.protocol
    audits = []
    for role, declared in protocol.roles().items():
        batch_size = offered.rows[role][declared.population]
        # A joined batch holds each transition twice; moments of other rows need their rows too.
        transitions = batch_size // 2 if declared.population == "joined" else batch_size
        if needs_spare_rows(declared):
            transitions *= 2
        forward = _role_forward(agent, role, played, transitions, rng)
        used, observed = _observe(agent, forward)
        audits.append(
            RoleAudit(
                role,
                f"{batch_size} × {declared.population}",
                declared=_in_words(forward.networks, _promised(agent, forward)),
                observed=_in_words(used, observed),
            )
        )
    return audits, notes


def _play(agent: Agent, env: VectorEnv, rng: np.random.Generator) -> Transitions:
    """The transitions of a few episodes."""
    obs, played = env.reset(), []
    for _ in range(_DECISIONS):
        explore = rng.random(env.num_envs) < _EXPLORE
        random_actions = rng.integers(env.spec.num_actions, size=env.num_envs)
        actions = np.where(explore, random_actions, agent.greedy(obs))
        step = env.step(actions)
        played.append((obs, actions, step.next_obs))
        obs = step.obs
    parts = (torch.from_numpy(np.concatenate(part)) for part in zip(*played, strict=True))
    return Transitions(*parts)


def _role_forward(
    agent: DeclaresRoles, role: Role, played: Transitions, count: int, rng: np.random.Generator
) -> RoleForward:
    """The role's forward on random transitions, as many as its batch is made of."""
    # A single sample has no batch-mates to exchange: its forward is given two.
    size, held = max(2, count), len(played.action)
    places = rng.choice(held, size, replace=size > held)
    noise = torch.Generator().manual_seed(int(rng.integers(2**63 - 1)))
    forwards = agent.role_forwards(Transitions(*(part[places] for part in played)), noise)
    if role not in forwards:
        raise UsageError(
            f"the protocol declares a role '{role}', but the agent's `role_forwards` has only "
            f"{', '.join(forwards)}: add it there."
        )
    return forwards[role]


@torch.no_grad()
def _observe(agent: DeclaresRoles, role: RoleForward) -> tuple[tuple[str, ...], Audit]:
    """Names of the networks that the role's output depends on, and the audit of its forward."""
    before = {name: deepcopy(network.state_dict()) for name, network in agent.networks.items()}
    everything = torch.arange(role.batch_size)

    def forward(samples: Tensor) -> Tensor:
        return role.at(samples).output()

    def output(changed: str | None = None) -> Tensor:
        if changed is not None:
            for parameter in agent.networks[changed].parameters():
                factors = torch.linspace(0.5, 1.5, parameter.numel())  # no norm takes these back
                parameter.mul_(factors.view(parameter.shape))
        result = forward(everything)
        for name, network in agent.networks.items():
            network.load_state_dict(before[name])
        return result

    plain = output()
    used = tuple(name for name in agent.networks if not torch.equal(plain, output(name)))
    return used, audit(forward, everything, modules=list(agent.networks.values()))


def _promised(agent: DeclaresRoles, role: RoleForward) -> Audit:
    """What the role declares. Batch renormalisation holds batch statistics near the running ones
    after its warm-up: then it reads both."""
    promised = Audit.promised_by(role.mode)
    layers = [layer for name in role.networks for layer in agent.networks[name].modules()]
    if role.mode.statistics == "batch" and any(
        isinstance(layer, BatchRenorm) and layer.updates >= layer.warmup_updates for layer in layers
    ):
        return replace(promised, reads_stored_moments=True)
    return promised


def _in_words(networks: tuple[str, ...], found: Audit) -> str:
    said = {True: ["writes"], False: [], None: ["cannot tell whether it writes"]}
    writes = said[found.writes_stored_moments]
    return ", ".join([" and ".join(networks).replace("_", " "), found.statistics, *writes])
