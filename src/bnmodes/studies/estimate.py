"""How long a study would take on this machine, from a short measurement."""

import os
import time
from collections.abc import Callable

from bnmodes.agents.registry import find_agent
from bnmodes.envs.registry import env_suite, make_env
from bnmodes.runs.spec import RunSpec
from bnmodes.studies.study import Study

_WARM_UP_SECONDS = 0.3
_MEASURE_SECONDS = 1.0
_PROCESS_BYTES = 1_300_000_000
"""Memory of the largest process, MR.Q's on Atari, besides its transitions."""


def estimate_seconds(study: Study) -> float:
    """Seconds of all runs one after the other on one core; each arm is measured on one game.

    Evaluations are left out: how long a game lasts is known only when it is played.
    """
    import torch  # here: `study list` needs none of it

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        seconds: dict[tuple[str, str], float] = {}
        for run in study.runs:
            key = (run.arm, env_suite(run.game))
            if key not in seconds:
                seconds[key] = seconds_per_decision(run.spec)
        return sum(
            run.spec.total_decisions * seconds[run.arm, env_suite(run.game)] for run in study.runs
        )
    finally:
        torch.set_num_threads(threads)


def memory_bytes(study: Study) -> int:
    """Memory of the largest run: its transitions and its process."""
    return transition_bytes(study) + _PROCESS_BYTES


def transition_bytes(study: Study) -> int:
    """Size of the largest run's stored transitions; each checkpoint holds them too."""
    largest = 0
    for game in study.games:
        games = make_env(game, 1, seed=0).spec
        each = (arm.settings(game).memory_bytes(games) for arm in study.arms)
        largest = max(largest, *each)
    return largest


def jobs_here(study: Study) -> int:
    """Processes side by side on this machine: one per core, as far as memory allows."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(len(os.sched_getaffinity(0)), int(memory * 0.9) // memory_bytes(study)))


def seconds_per_decision(spec: RunSpec) -> float:
    """Seconds for one decision of a run while it learns, on one thread."""
    settings = spec.settings.for_timing()
    games = make_env(spec.env, settings.env_rows, seed=0)
    # A run of one decision: ε is soon at its end, and nearly every action is the network's.
    agent = find_agent(spec.agent).build(settings, games.spec, seed=0, total_decisions=1)
    obs = games.reset()
    agent.begin(obs)

    def decide() -> None:
        nonlocal obs
        actions = agent.act(obs)
        step = games.step(actions)
        agent.observe(actions, step)
        agent.learn()
        obs = step.obs

    _seconds_per_call(decide, _WARM_UP_SECONDS)
    return _seconds_per_call(decide, _MEASURE_SECONDS) / settings.num_envs


def _seconds_per_call(work: Callable[[], None], at_least_seconds: float) -> float:
    calls, begin = 0, time.perf_counter()
    while (seconds := time.perf_counter() - begin) < at_least_seconds:
        work()
        calls += 1
    return seconds / calls
