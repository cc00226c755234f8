"""One small agent twice, compiled and eager: each update of both must be the same.

python tests/compiled_beside_eager.py AGENT ARM
"""

import sys
from dataclasses import fields, replace

import numpy as np
import torch

from actor_critic_agents import SMALL
from bnmodes.agents.catalogue import AGENTS
from bnmodes.envs.registry import make_env
from bnmodes.execution import PLAIN, Execution

REPLAY = {"batch_size": 16, "replay_capacity": 100, "learning_starts_decisions": 0}
SETTINGS = {
    "c51": REPLAY,
    "pqn": {"num_envs": 4, "test_envs": 2, "rollout_steps": 6, "minibatches": 1, "epochs": 1},
    **{name: REPLAY | SMALL[name] for name in ("td3", "xqc", "mrq")},
}

COMPILED_BY_NOW = 3
"""Updates in which each loss has had its turn."""


def build(name: str, arm: str, execution: Execution = PLAIN, **changes):
    config = AGENTS[name].arm_config(arm, "minatar")
    if arm == "crossq-renorm":
        changes |= {"renorm_warmup_updates": 2}
    config = replace(config, **(SETTINGS[name] | changes))
    config.validate(evaluation_rows=10)
    games = make_env("minatar/breakout", config.env_rows, seed=0)
    return AGENTS[name].build(config, games.spec, 0, 1000, execution), games


def fill(agent, games, decisions=40) -> None:
    """Play at random and learn nothing; of PQN, a whole rollout."""
    rng = np.random.default_rng(0)
    obs = games.reset()
    agent.begin(obs)
    for _ in range(getattr(agent.config, "rollout_steps", decisions)):
        agent.act(obs)
        actions = rng.integers(agent.num_actions, size=games.num_envs)
        step = games.step(actions)
        agent.observe(actions, step)
        obs = step.obs


def learn(agent, updates=1) -> None:
    if hasattr(agent, "rollout"):
        agent.step = agent.config.rollout_steps  # the same rollout again
        agent.learn()
    else:
        agent._updates(updates)


def optimizers(agent) -> list[torch.optim.Optimizer]:
    return list(agent.optimizers.values()) if hasattr(agent, "optimizers") else [agent.optimizer]


def gradients_of(agent) -> list[list[torch.Tensor]]:
    """Filled with the gradients of every step to come."""
    steps = []

    def keep(optimizer, args, kwargs) -> None:
        (group,) = optimizer.param_groups
        steps.append([parameter.grad.clone() for parameter in group["params"]])

    for optimizer in optimizers(agent):
        optimizer.register_step_pre_hook(keep)
    return steps


def buffers(agent) -> list[torch.Tensor]:
    return [buffer for network in agent.networks.values() for buffer in network.buffers()]


def assert_near(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> None:
    """A bias before BatchNorm has the gradient 0, and gets the rounding of the others."""
    largest = max((tensor.abs().max() for tensor in theirs), default=0)
    for a, b in zip(ours, theirs, strict=True):
        assert (a - b).abs().max() <= 1e-4 * largest


@torch.no_grad()
def move(agent, seed: int) -> None:
    """Biases too: where all are 0, a unit may stand at the corner of its ReLU."""
    rng = torch.Generator().manual_seed(seed)
    for network in agent.networks.values():
        for parameter in network.parameters():
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=rng))


def compare(name: str, arm: str) -> None:
    """Each update from the same weights: errors of floats must not add up over updates.

    So the optimizers hardly step (Adam makes a whole step of any rounding), and the weights are
    moved here.
    """
    config = AGENTS[name].arm_config(arm, "minatar")
    rates = {f.name: 1e-9 for f in fields(config) if f.name.endswith("learning_rate")}
    agents = [build(name, arm, Execution(compile=c), **rates) for c in (False, True)]
    for agent, games in agents:
        fill(agent, games)
    (eager, _), (compiled, _) = agents
    wanted, met = gradients_of(eager), gradients_of(compiled)
    for update in range(2 * COMPILED_BY_NOW):
        move(eager, seed=update)
        compiled.load_networks(eager.state()["networks"])
        with torch._dynamo.config.patch(error_on_recompile=update >= COMPILED_BY_NOW):
            for agent in (eager, compiled):
                agent.termination_seen = update > 4  # one of MR.Q's losses depends on it
                learn(agent)
        assert wanted
        for ours, theirs in zip(met, wanted, strict=True):
            assert_near(ours, theirs)
        assert_near(buffers(compiled), buffers(eager))
        wanted.clear()
        met.clear()
    ours, theirs = compiled.take_metrics(), eager.take_metrics()
    assert ours.keys() == theirs.keys()
    assert np.allclose(list(ours.values()), list(theirs.values()), rtol=1e-3, atol=1e-5)
    with torch._dynamo.config.patch(error_on_recompile=True):
        learn(compiled, updates=4)


if __name__ == "__main__":
    torch.set_num_threads(1)
    compare(*sys.argv[1:])
