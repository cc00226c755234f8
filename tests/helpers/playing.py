"""The loop of a run without its records: act, step, observe, learn."""

import numpy as np

from bnmodes.agents.agent import Agent
from bnmodes.envs.contract import VectorEnv


def play(agent: Agent, games: VectorEnv, steps: int, obs: np.ndarray | None = None) -> np.ndarray:
    """From new games, or on from `obs`; returns the observations that come next."""
    if obs is None:
        obs = games.reset()
        agent.begin(obs)
    for _ in range(steps):
        actions = agent.act(obs)
        step = games.step(actions)
        agent.observe(actions, step)
        agent.learn()
        obs = step.obs
    return obs
