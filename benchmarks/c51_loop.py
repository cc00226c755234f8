"""Decisions per second of the whole C51 loop (act, play, store, learn), evaluation off, one thread.

make bench
"""

import time

import torch

from bnmodes.agents.c51 import C51Agent
from bnmodes.agents.registry import arm_settings
from bnmodes.envs.registry import env_suite, make_env

LEARNING_STARTS = 200


def decisions_per_second(env: str, updates_per_decision: float, decisions: int) -> float:
    changes = {
        "updates_per_decision": updates_per_decision,
        "learning_starts_decisions": LEARNING_STARTS,
        "replay_capacity": 10_000,
        "epsilon_start": 0.01,
    }
    settings = arm_settings("c51", "bn-batch", env_suite(env), changes)
    games = make_env(env, 1, seed=0)
    agent = C51Agent(settings, games.spec, seed=0, total_decisions=10**6)
    obs = games.reset()
    agent.begin(obs)
    for decision in range(LEARNING_STARTS + decisions):
        if decision == LEARNING_STARTS:
            begin = time.perf_counter()
        actions = agent.act(obs)
        step = games.step(actions)
        agent.observe(actions, step)
        agent.learn()
        obs = step.obs
    return decisions / (time.perf_counter() - begin)


def main() -> None:
    torch.set_num_threads(1)
    print("C51 with BatchNorm, whole loop, one thread")
    for env, utd, decisions in (
        ("atari/Pong", 0.25, 1000),
        ("atari/Pong", 1.0, 400),
        ("minatar/breakout", 0.25, 8000),
        ("minatar/breakout", 1.0, 3000),
    ):
        speed = decisions_per_second(env, utd, decisions)
        print(f"{env:18} UTD {utd:<4}  {speed:8,.1f} decisions/s")


if __name__ == "__main__":
    main()
