"""One case, in a process of its own: `python -m bnmodes.bench.measure`, a case as JSON on standard
input, its measurement as JSON on standard output."""

import json
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from bnmodes.agents.registry import find_agent
from bnmodes.bench.cases import Case
from bnmodes.envs.registry import make_env
from bnmodes.execution import Execution, keep_freed_memory
from bnmodes.learning.optimizer import Optimizer
from bnmodes.runs.spec import make_spec

WINDOWS = 5


class Work:
    """An agent that plays and learns, one decision of all its environments a call."""

    def __init__(self, case: Case):
        spec = make_spec(case.agent, case.env, case.arm, changes=case.changes)
        self.points = spec.diagnostics.points
        self.total_decisions = spec.total_decisions
        self.calls_per_cycle = getattr(spec.settings, "rollout_steps", 1)
        # A replay is filled soon; rollouts keep their length.
        settings = spec.settings if self.calls_per_cycle > 1 else spec.settings.for_timing()
        execution = Execution(compile=case.compile)
        self.env = make_env(case.env, settings.env_rows, 0, threads=torch.get_num_threads())
        # A run of one decision: ε is soon at its end, and nearly every action is the network's.
        self.agent = find_agent(case.agent).build(settings, self.env.spec, 0, 1, execution)
        self.obs = self.env.reset()
        self.agent.begin(self.obs)
        self.decisions_per_call = settings.num_envs
        self.updates_per_decision = settings.updates_per_decision

    def cycle(self) -> None:
        """As many decisions as come between updates, and these."""
        for _ in range(self.calls_per_cycle):
            actions = self.agent.act(self.obs)
            step = self.env.step(actions)
            self.agent.observe(actions, step)
            self.agent.learn()
            self.obs = step.obs


def measure(case: Case, seconds: float) -> dict[str, Any]:
    """Decisions a second (the median of windows, and their spread), time to the first update, peak
    memory, FLOP/s beside those of a matrix product, and the share of each part."""
    begun = time.perf_counter()
    torch.set_num_threads(os.cpu_count() or 1 if case.all_cores else 1)
    keep_freed_memory()
    work = Work(case)
    first_update = _until_first_update(work, begun)
    _for_seconds(work.cycle, seconds / 4)
    speeds, matmul_speeds = [], []  # in turns: the machine's other work disturbs both alike
    for _ in range(WINDOWS):
        cycles, elapsed = _for_seconds(work.cycle, seconds / WINDOWS)
        speeds.append(cycles * work.calls_per_cycle * work.decisions_per_call / elapsed)
        matmul_speeds.append(matmul_gflops())
    speed = statistics.median(speeds)
    result = {
        "decisions_per_second": speed,
        "relative_spread": (max(speeds) - min(speeds)) / speed,
        "seconds_to_first_update": first_update,
        "matmul_gflops": statistics.median(matmul_speeds),
        "peak_memory_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "shares": _shares(work, seconds / 2, compiled=case.compile),
        "diagnostics_share": _diagnostics_share(work, speed),
    }
    if not case.compile:  # a compiled graph hides its operations from the counter
        flops = _flops_per_cycle(work) / (work.calls_per_cycle * work.decisions_per_call)
        result["gflops"] = flops * speed / 1e9
    return result


def _for_seconds(work: Callable[[], object], at_least: float) -> tuple[int, float]:
    """Calls that were made, and the time that they took."""
    calls, begin = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < at_least or calls == 0:
        work()
        calls += 1
    return calls, elapsed


def _until_first_update(work: Work, begun: float) -> float:
    """Seconds since `begun`; compilation is a part of it."""
    while not getattr(work.agent, "updates", 1):
        work.cycle()
    return time.perf_counter() - begun


class Stopwatch:
    """Seconds by part. A part inside another counts for itself, except inside `act`: the forward
    that acts is a part of acting."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._acting = False

    @contextmanager
    def on(self, owner: Any, name: str, part: str) -> Iterator[None]:
        """Time every call of `owner.name`."""
        original, had_own = getattr(owner, name), name in vars(owner)

        def timed(*args, **kwargs):
            if self._acting:
                return original(*args, **kwargs)
            inside, begin = sum(self.seconds.values()), time.perf_counter()
            self._acting = part == "act"
            result = original(*args, **kwargs)
            self._acting = False
            elapsed = time.perf_counter() - begin - (sum(self.seconds.values()) - inside)
            self.seconds[part] = self.seconds.get(part, 0.0) + elapsed
            return result

        setattr(owner, name, timed)
        try:
            yield
        finally:
            if had_own:
                setattr(owner, name, original)
            else:
                delattr(owner, name)


def _shares(work: Work, seconds: float, *, compiled: bool) -> dict[str, float]:
    """Fractions of the loop's time; the rest (targets, losses, bookkeeping) is `other`, and so is
    what a compiled graph holds, since nobody can look into it."""
    agent, watch = work.agent, Stopwatch()
    places = [
        (agent, "act", "act"),
        (work.env, "step", "environment"),
        (getattr(agent, "replay", None), "sample", "sample"),
    ]
    if not compiled:
        places += [
            (torch.autograd, "grad", "backward"),
            (Optimizer, "_step", "optimizer"),
            (agent, "forward", "forward"),
        ]
    with ExitStack() as watched:
        for owner, name, part in places:
            if hasattr(owner, name):
                watched.enter_context(watch.on(owner, name, part))
        _, elapsed = _for_seconds(work.cycle, seconds)
    shares = {part: taken / elapsed for part, taken in watch.seconds.items()}
    return shares | {"other": 1 - sum(shares.values())}


def _diagnostics_share(work: Work, speed: float) -> float:
    """Of a whole run of the default length, with diagnostics on the default grid."""
    work.agent.diagnose(work.obs, np.random.default_rng(0))
    begin = time.perf_counter()
    work.agent.diagnose(work.obs, np.random.default_rng(1))
    diagnostics = work.points * (time.perf_counter() - begin)
    return diagnostics / (diagnostics + work.total_decisions / speed)


def _flops_per_cycle(work: Work) -> float:
    """Of matrix products and convolutions, forward and backward; the mean of several cycles."""
    cycles = max(1, round(4 / max(work.updates_per_decision, 1e-9)))
    if work.calls_per_cycle > 1:
        cycles = 1
    with FlopCounterMode(display=False) as counter:
        for _ in range(cycles):
            work.cycle()
    return counter.get_total_flops() / cycles


def matmul_gflops(size: int = 1024, seconds: float = 0.2) -> float:
    """Of a square matrix product in single precision, with the threads that are set."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    torch.mm(a, b)
    calls, elapsed = _for_seconds(lambda: torch.mm(a, b), seconds)
    return 2 * size**3 * calls / elapsed / 1e9


def main() -> None:
    task = json.load(sys.stdin)
    print(json.dumps(measure(Case(**task["case"]), task["seconds"])))


if __name__ == "__main__":
    main()
