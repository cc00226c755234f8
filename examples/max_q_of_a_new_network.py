"""Max-Q of C51 before any learning, by the rows whose statistics normalise the bootstrap.

    python examples/max_q_of_a_new_network.py [GAME]

Values normalised with the statistics of their own n rows have exactly variance 1. With those of n
other, independent rows of a normal distribution it is (n + 1) / (n − 3): the deviation of few rows
is often too small, and dividing by it makes large values (Student's t). Their maximum over actions
grows with this deviation. Printed, for minibatches of n rows: the mean max-Q of the next
observations of random play, over five new networks.
"""

import sys
from collections.abc import Iterable
from math import sqrt

import numpy as np
import torch

from bnmodes.agents.c51 import C51Agent
from bnmodes.agents.registry import arm_settings
from bnmodes.envs.registry import env_spec, make_env
from bnmodes.replay.ring import Replay

ARMS = {
    "bn-running": "mean 0, variance 1",
    "bn-batch": "own rows",
    "bn-pool": "1,024 other rows",
    "bn-independent": "n other rows",
    "bn-partner": "n observations before",
}


MINIBATCHES = (4, 8, 32)
SEEDS = range(5)


def new_agent(arm: str, rows: int, game: str, seed: int) -> C51Agent:
    settings = arm_settings("c51", arm, suite="minatar", changes={"batch_size": rows})
    return C51Agent(settings, env_spec(game), seed, total_decisions=1_000_000)


def random_play(game: str, seed: int, decisions: int = 1_000) -> Replay:
    agent, env = new_agent("bn-batch", 4, game, seed), make_env(game, 1, seed)
    agent.begin(env.reset())
    rng = np.random.default_rng(seed)
    for _ in range(decisions):
        actions = rng.integers(agent.num_actions, size=1)
        agent.observe(actions, env.step(actions))
    return agent.replay


@torch.no_grad()
def mean_max_q(agent: C51Agent, rows: int, minibatches: int = 50) -> float:
    rng, others, values = np.random.default_rng(0), np.random.default_rng(1), []
    for _ in range(minibatches):
        batch = agent.replay.sample(rows, rng)
        spare = agent.spare_rows("bootstrap", others)
        companions = agent.companions("bootstrap", batch.obs, spare)
        output = agent.forward("bootstrap", batch.next_obs, companions)
        values.append(agent.q_values(output).amax(-1).mean().item())
    return float(np.mean(values))


def max_q_of_new_networks(arm: str, rows: int, game: str, replays: list[Replay]) -> float:
    values = []
    for seed, replay in zip(SEEDS, replays, strict=True):
        agent = new_agent(arm, rows, game, seed)
        agent.replay = replay
        values.append(mean_max_q(agent, rows))
    return float(np.mean(values))


def show(words: str, values: Iterable[float]) -> None:
    print(f"{words:22}" + "".join(f"{value:8.2f}" for value in values))


def main(game: str) -> None:
    replays = [random_play(game, seed) for seed in SEEDS]
    print(f"{'n':22}" + "".join(f"{n:8}" for n in MINIBATCHES))
    found = {}
    for arm, words in ARMS.items():
        found[arm] = [max_q_of_new_networks(arm, n, game, replays) for n in MINIBATCHES]
        show(words, found[arm])
    show("n other / own rows", np.divide(found["bn-independent"], found["bn-batch"]))
    show("√((n + 1) / (n − 3))", (sqrt((n + 1) / (n - 3)) for n in MINIBATCHES))


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["minatar/breakout"]))
