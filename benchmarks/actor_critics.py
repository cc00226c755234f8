"""Decisions per processor second and memory of TD3, XQC and MR.Q: whole loop, one thread.

make bench
"""

import resource
import subprocess
import sys
import time

import torch

from bnmodes.agents.registry import AGENTS, arm_settings
from bnmodes.envs.registry import env_suite, make_env

AGENT_ARMS = (("td3", "none"), ("xqc", "bn-joined"), ("mrq", "ln"))
GAMES = (("atari/Pong-sticky", 20), ("minatar/breakout", 300))
WARM_UP = 10


def measure(agent_name: str, arm: str, env: str, decisions: int) -> None:
    """With a replay of 1,000: the real one's memory is known without filling it."""
    torch.set_num_threads(1)
    declared = arm_settings(agent_name, arm, env_suite(env))
    games = make_env(env, 1, seed=0)
    settings = declared.for_timing()
    agent = AGENTS[agent_name].build(settings, games.spec, 0, 10**6)
    obs = games.reset()
    agent.begin(obs)
    for decision in range(WARM_UP + decisions):
        if decision == WARM_UP:
            begin = time.process_time()  # not disturbed by what else runs here
        actions = agent.act(obs)
        step = games.step(actions)
        agent.observe(actions, step)
        agent.learn()
        obs = step.obs
    speed = decisions / (time.process_time() - begin)
    process = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    replay = declared.memory_bytes(games.spec) / 1e9
    print(
        f"{agent_name:4} {env:18} UTD {settings.updates_per_decision:g} "
        f"batch {settings.batch_size:3}  {speed:8,.1f} decisions/s   "
        f"{process:4.1f} GB, and {replay:.2f} GB of replay when full"
    )


def main() -> None:
    print("Actor-critics, whole loop, one thread")
    for env, decisions in GAMES:
        for agent, arm in AGENT_ARMS:
            # A process each, so that its largest memory is its own.
            subprocess.run([sys.executable, __file__, agent, arm, env, str(decisions)], check=True)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        measure(*sys.argv[1:4], int(sys.argv[4]))
