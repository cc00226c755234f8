"""How long a study would take on this machine, from a short measurement."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from bnmodes.agents.c51 import C51
from bnmodes.envs.registry import env_family, make_env
from bnmodes.replay import Replay
from bnmodes.studies.spec import Study
from bnmodes.training.spec import RunSpec

_WARM_UP = 3
_MEASURE_SECONDS = 0.7
_PROCESS_BYTES = 600_000_000


@dataclass(frozen=True)
class Cost:
    """Of one run's parts, on one thread."""

    decision_seconds: float
    update_seconds: float

    def of(self, spec: RunSpec) -> float:
        """Evaluations are left out: how long a game lasts is known only when it is played."""
        config = spec.config
        learning = spec.total_decisions - config.learning_starts_decisions
        updates = max(0, learning) * config.updates_per_decision
        return spec.total_decisions * self.decision_seconds + updates * self.update_seconds


def estimate_seconds(study: Study) -> float:
    """Of all runs one after the other on one core; each arm is measured on one game."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        costs: dict[tuple[str, str], Cost] = {}
        total = 0.0
        for run in study.runs:
            key = (run.spec.arm, env_family(run.game))
            if key not in costs:
                costs[key] = measure(run.spec)
            total += costs[key].of(run.spec)
        return total
    finally:
        torch.set_num_threads(threads)


def memory_bytes(study: Study) -> int:
    """Of the largest run's replay, and a process around it."""
    largest = 0
    for game in study.games:
        spec = next(run.spec for run in study.runs if run.game == game)
        games = make_env(game, 1, seed=0).spec
        largest = max(
            largest, Replay(games, spec.config.num_envs, spec.config.replay_capacity).nbytes
        )
    return largest + _PROCESS_BYTES


def jobs_here(study: Study) -> int:
    """One per core, as far as memory allows."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(len(os.sched_getaffinity(0)), int(memory * 0.9) // memory_bytes(study)))


def measure(spec: RunSpec) -> Cost:
    config = replace(spec.config, replay_capacity=1_000)
    games = make_env(spec.env, config.num_envs, seed=0)
    agent = C51(config, games.spec, seed=0, total_decisions=spec.total_decisions)
    obs = games.reset()
    agent.begin(obs)
    agent.decisions = spec.total_decisions  # when ε is small, nearly every action is the network's

    def decide() -> None:
        nonlocal obs
        actions = agent.act(obs)
        step = games.step(actions)
        agent.observe(actions, step)
        obs = step.obs

    return Cost(_seconds(decide) / config.num_envs, _seconds(agent._update))


def _seconds(work: Callable[[], None]) -> float:
    """Of one call, the median of those that fit into a moment."""
    for _ in range(_WARM_UP):
        work()
    times = []
    end = time.perf_counter() + _MEASURE_SECONDS
    while time.perf_counter() < end:
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return float(np.median(times))
