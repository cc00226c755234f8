"""Small actor-critics for tests."""

import numpy as np

from bnmodes.agents.actor_critic import ActorCritic
from bnmodes.agents.registry import AGENTS
from bnmodes.envs.contract import VectorEnv
from bnmodes.envs.registry import env_suite, make_env
from helpers.settings import settings_of

ARM = {"td3": "none", "xqc": "bn-joined", "crossq": "batchnorm", "mrq": "ln"}

SMALL = {
    "td3": {"hidden_units": 32},
    "xqc": {"hidden_layers": 1, "critic_units": 32, "actor_units": 32, "atoms": 21},
    "crossq": {"hidden_layers": 1, "critic_units": 32, "actor_units": 32},
    "mrq": {
        "hidden_units": 32,
        "action_units": 8,
        "unroll_steps": 3,
        "target_period_updates": 10,
    },
}


def build(name: str, env="minatar/breakout", arm=None, total_decisions=1000, seed=0, **changes):
    """An agent and its games."""
    short = {"batch_size": 16, "replay_capacity": 2_000, "learning_starts_decisions": 20}
    changes = short | SMALL[name] | changes
    settings = settings_of(name, arm or ARM[name], env_suite(env), **changes)
    settings.validate(evaluation_rows=10)
    games = make_env(env, settings.num_envs, seed=seed)
    return AGENTS[name].build(settings, games.spec, seed, total_decisions), games


def fill(agent: ActorCritic, games: VectorEnv, decisions: int) -> None:
    """Play at random into the replay, and learn nothing."""
    rng = np.random.default_rng(0)
    agent.begin(games.reset())
    for _ in range(decisions):
        actions = rng.integers(agent.num_actions, size=games.num_envs)
        agent.observe(actions, games.step(actions))
