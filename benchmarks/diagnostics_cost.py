"""Share of a run's processor time that diagnostics take on their default grid, one thread.

Evaluation is off, as are the faster decisions before learning starts. make bench
"""

import time

import numpy as np
import torch

from bnmodes.agents.registry import AGENTS, arm_settings
from bnmodes.envs.registry import env_suite, make_env
from bnmodes.runs.spec import DiagnosticsSettings

LEARNING_STARTS = 1_100
"""More rows than diagnostics draw."""
PASSES = 5


def seconds_per_decision_and_pass(agent: str, env: str, arm: str, steps: int) -> tuple:
    changes, warm_up = {}, 0
    if agent != "pqn":
        changes = {"learning_starts_decisions": LEARNING_STARTS, "replay_capacity": 10_000}
        warm_up = LEARNING_STARTS
    if agent == "c51":
        changes["epsilon_start"] = 0.01
    if agent == "mrq":  # an encoder update at each update, instead of 250 of them at once
        changes["target_period_updates"] = 1
    settings = arm_settings(agent, arm, env_suite(env), changes)
    games = make_env(env, settings.env_rows, seed=0)
    learner = AGENTS[agent].build(settings, games.spec, seed=0, total_decisions=10**6)
    obs = games.reset()
    learner.begin(obs)
    for step in range(warm_up + steps):
        if step == warm_up:
            begin = time.process_time()
        actions = learner.act(obs)
        outcome = games.step(actions)
        learner.observe(actions, outcome)
        learner.learn()
        obs = outcome.obs
    decision = (time.process_time() - begin) / (steps * settings.num_envs)
    begin = time.process_time()
    for number in range(PASSES):
        learner.diagnose(obs, np.random.default_rng(number))
    return decision, (time.process_time() - begin) / PASSES


def main() -> None:
    torch.set_num_threads(1)
    points = DiagnosticsSettings().points
    print(f"{points} diagnostics in a run, one thread, processor time")
    for agent, env, arm, total, steps in (
        ("c51", "minatar/breakout", "none", 40_000, 4_000),
        ("c51", "minatar/breakout", "bn-batch", 40_000, 4_000),
        ("c51", "minatar/breakout", "bn-tracked", 40_000, 4_000),
        ("pqn", "minatar/breakout", "bn-batch", 400_000, 96),
        ("c51", "atari/Pong", "bn-batch", 1_250_000, 400),
        ("pqn", "atari/Pong", "bn-batch", 10_000_000, 32),
        ("td3", "minatar/breakout", "none", 40_000, 300),
        ("xqc", "minatar/breakout", "bn-joined", 40_000, 300),
        ("xqc", "minatar/breakout", "bn-separate", 40_000, 300),
        ("mrq", "minatar/breakout", "ln", 40_000, 200),
        ("td3", "atari/Pong-sticky", "none", 1_250_000, 6),
        ("xqc", "atari/Pong-sticky", "bn-joined", 1_250_000, 6),
        ("mrq", "atari/Pong-sticky", "ln", 1_250_000, 6),
    ):
        decision, one_pass = seconds_per_decision_and_pass(agent, env, arm, steps)
        share = points * one_pass / (points * one_pass + total * decision)
        print(
            f"{agent} {env:16} {arm:10} {total:10,} decisions: one pass {1e3 * one_pass:6.0f} ms, "
            f"{100 * share:.2f}% of {total * decision + points * one_pass:,.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
