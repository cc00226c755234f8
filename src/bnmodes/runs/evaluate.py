"""Separate evaluation: own environments, one full game in each, the evaluate role's statistics."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float32, Int64

from bnmodes.envs.contract import Observations, VectorEnv


def play_games(
    greedy: Callable[[Observations], Int64[np.ndarray, " envs"]],
    env: VectorEnv,
    epsilon: float,
    rng: np.random.Generator,
    each_decision: Callable[[], None],
) -> Float32[np.ndarray, " envs"]:
    """Raw return of the first game of each environment.

    "The first N games that end" would count short games too often. Finished environments keep
    stepping, their rewards ignored, so that the batch size stays constant.
    """
    obs = env.reset()
    returns = np.zeros(env.num_envs, np.float32)
    playing = np.ones(env.num_envs, bool)
    while playing.any():
        each_decision()
        random_actions = rng.integers(env.spec.num_actions, size=env.num_envs)
        explore = rng.random(env.num_envs) < epsilon
        step = env.step(np.where(explore, random_actions, greedy(obs)))
        returns += step.reward * playing
        playing &= ~step.game_over
        obs = step.obs
    return returns
