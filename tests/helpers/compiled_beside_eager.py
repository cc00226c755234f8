"""One small agent twice, compiled and eager: each update of both must be the same.

And what was compiled must be of a kind that an accelerator can capture.

cd tests && python -m helpers.compiled_beside_eager AGENT ARM
"""

import sys
from dataclasses import fields

import numpy as np
import torch
from torch._inductor.compile_fx import compile_fx, compile_fx_inner

from bnmodes.agents.registry import AGENTS
from bnmodes.envs.registry import make_env
from bnmodes.execution import PLAIN, Execution
from bnmodes.learning.optimizer import Optimizer
from helpers.actor_critic_agents import SMALL
from helpers.settings import settings_of

REPLAY = {"batch_size": 16, "replay_capacity": 100, "learning_starts_decisions": 0}
SETTINGS = {
    "c51": REPLAY,
    "pqn": {"num_envs": 4, "test_envs": 2, "rollout_steps": 6, "minibatches": 1, "epochs": 1},
    **{name: REPLAY | SMALL[name] for name in ("td3", "xqc", "crossq")},
    "mrq": REPLAY | SMALL["mrq"] | {"shift_pixels": 1},
}

COMPILED_BY_NOW = 3
"""Updates in which each part of an update has had its turn."""
LEARNING_RATE = 1e-6
"""Small: within an update one step may come before another loss."""


def build(name: str, arm: str, execution: Execution = PLAIN, **changes):
    if arm == "batchrenorm":
        # Behind a ReLU many channels hardly vary: a small ε would divide their rounding by √ε.
        changes |= {"renorm_warmup_updates": 2, "bn_epsilon": 0.1}
    settings = settings_of(name, arm, **(SETTINGS[name] | changes))
    settings.validate(evaluation_rows=10)
    games = make_env("minatar/breakout", settings.env_rows, seed=0)
    return AGENTS[name].build(settings, games.spec, 0, 1000, execution), games


def fill(agent, games, decisions=40) -> None:
    """Play at random and learn nothing; of PQN, a whole rollout."""
    rng = np.random.default_rng(0)
    obs = games.reset()
    agent.begin(obs)
    for _ in range(getattr(agent.settings, "rollout_steps", decisions)):
        agent.act(obs)
        actions = rng.integers(agent.num_actions, size=games.num_envs)
        step = games.step(actions)
        agent.observe(actions, step)
        obs = step.obs


def learn(agent, updates=1) -> None:
    if hasattr(agent, "rollout"):
        agent.rollout.filled = agent.settings.rollout_steps  # the same rollout again
        agent.learn()
    else:
        agent.make_updates(updates)


def optimizers(agent) -> list[Optimizer]:
    return list(agent.optimizers.values()) if hasattr(agent, "optimizers") else [agent.optimizer]


def gradients(agent) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Their means and squares; updates add to them, so differences of floats do not grow."""
    each = optimizers(agent)
    means = [mean for optimizer in each for mean in optimizer.gradient_means]
    return means, [square for optimizer in each for square in optimizer.gradient_squares]


def network_tensors(agent) -> list[torch.Tensor]:
    return [t for network in agent.networks.values() for t in network.state_dict().values()]


def assert_near(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> None:
    """A bias before BatchNorm has the gradient 0, and gets the rounding of the others."""
    largest = max(tensor.abs().max() for tensor in theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert (a - b).abs().max() <= 1e-4 * largest


def assert_same_steps(compiled, eager, before: list[torch.Tensor]) -> None:
    """Wherever a parameter went, or a moment, or a target after them.

    Adam makes a whole step of any rounding, so parameters without a gradient, as offsets before
    another BatchNorm are, may differ by two of them.
    """
    pairs = zip(network_tensors(compiled), network_tensors(eager), before, strict=True)
    for ours, theirs, old in pairs:
        way = (theirs - old).abs().max()
        assert (ours - theirs).abs().max() <= max(2.1 * LEARNING_RATE, 1e-3 * way)
    stepped = 0
    for mine, other in zip(optimizers(compiled), optimizers(eager), strict=True):
        largest = max(mean.abs().max() for mean in other.gradient_means)
        for ours, theirs, mean in zip(
            mine.parameters, other.parameters, other.gradient_means, strict=True
        ):
            clear = mean.abs() > 1e-3 * largest
            stepped += int(clear.sum())
            if clear.any():
                assert (ours - theirs)[clear].abs().median() <= 0.05 * LEARNING_RATE
    assert stepped > 100


@torch.no_grad()
def move(agent, seed: int) -> None:
    """Biases too: where all are 0, a unit may stand at the corner of its ReLU."""
    rng = torch.Generator().manual_seed(seed)
    for network in agent.networks.values():
        for parameter in network.parameters():
            parameter.add_(0.02 * torch.randn(parameter.shape, generator=rng))


inputs_changed: list[int] = []
"""How many, in each compiled graph."""


def capturable(graph: torch.fx.GraphModule, inputs: list, **settings):
    """A CUDA graph is captured only if all that it changes stays where it is in memory."""
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    changes = [n for n in graph.graph.nodes if n.target is torch.ops.aten.copy_.default]
    changed = {placeholders.index(node.args[0]) for node in changes}
    assert changed <= set(settings["static_input_idxs"])
    inputs_changed.append(len(changed))
    return compile_fx_inner(graph, inputs, **settings)


def compare(name: str, arm: str) -> None:
    """Each update from the same weights: errors of floats must not add up over updates."""
    names = [field.name for field in fields(AGENTS[name].settings)]
    rates = {each: LEARNING_RATE for each in names if each.endswith("learning_rate")}
    agents = [build(name, arm, Execution(compile=c), **rates) for c in (False, True)]
    for agent, games in agents:
        fill(agent, games)
    (eager, _), (compiled, _) = agents
    for update in range(2 * COMPILED_BY_NOW):
        move(eager, seed=update)
        before = [tensor.clone() for tensor in network_tensors(eager)]
        compiled.load_networks(eager.state()["networks"])
        with torch._dynamo.config.patch(error_on_recompile=update >= COMPILED_BY_NOW):
            for agent in (eager, compiled):
                agent.termination_seen = update > 4  # one of MR.Q's losses depends on it
                learn(agent)
        for ours, theirs in zip(gradients(compiled), gradients(eager), strict=True):
            assert_near(ours, theirs)
        assert_same_steps(compiled, eager, before)
    ours, theirs = compiled.take_metrics(), eager.take_metrics()
    assert ours.keys() == theirs.keys()
    assert np.allclose(list(ours.values()), list(theirs.values()), rtol=1e-3, atol=1e-5)
    with torch._dynamo.config.patch(error_on_recompile=True):
        learn(compiled, updates=4)
    held = sum(len(optimizer.parameters) for optimizer in optimizers(compiled))
    assert sum(inputs_changed) >= 4 * held, "parameters, two moments and steps"


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch._functorch.config.enable_autograd_cache = False  # else an earlier run's graph is unseen
    compile_as_usual = torch.compile
    torch.compile = lambda function, **settings: compile_as_usual(
        function,
        **settings | {"backend": lambda graph, inputs, mode: compile_fx(graph, inputs, capturable)},
    )
    compare(*sys.argv[1:])
