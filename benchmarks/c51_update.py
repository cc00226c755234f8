"""What our abstractions cost: one C51 update with BatchNorm, beside a bare PyTorch loop.

The bare loop does the same work and nothing else: channels-last, fused Adam, `nn.BatchNorm`, ready
stacked observations in one array, no role, no mode, no metrics. Both alternate in short rounds,
with the compiled update as a third, so that a noisy machine disturbs all alike; the ratio of
medians is the result.

    make bench
"""

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import nn

from bnmodes.agents.c51 import C51Agent
from bnmodes.agents.registry import arm_settings
from bnmodes.envs.contract import EnvSpec, Step
from bnmodes.execution import PLAIN, Execution, has_compiler

ROUNDS = 30
GAMES = {
    "nature": EnvSpec("random frames", 6, (1, 84, 84), 4, 1 / 255, 4, True),
    "minatar": EnvSpec("random planes", 3, (4, 10, 10), 1, 1.0, 1, True),
}
TRANSITIONS = 2000


def frames(spec: EnvSpec, rng: np.random.Generator) -> np.ndarray:
    high = 256 if spec.pixel_scale < 1 else 2
    return rng.integers(0, high, (1, *spec.obs_shape), dtype=np.uint8)


def our_update(torso: str, execution: Execution = PLAIN) -> Callable[[], None]:
    spec, rng = GAMES[torso], np.random.default_rng(0)
    changes = {"torso": torso, "replay_capacity": TRANSITIONS}
    agent = C51Agent(arm_settings("c51", "bn-batch", "atari", changes), spec, 0, 10**6, execution)
    agent.begin(frames(spec, rng))
    going_on, reward = np.zeros(1, bool), np.zeros(1, np.float32)
    for _ in range(TRANSITIONS):
        obs = frames(spec, rng)
        agent.observe(np.zeros(1, np.int64), Step(obs, obs, reward, going_on, going_on))
    return partial(agent.make_updates, 1)


def bare_network(torso: str, spec: EnvSpec) -> nn.Sequential:
    channels = spec.obs_shape[0]
    if torso == "nature":
        torso_layers = [
            nn.Conv2d(channels, 32, 8, 4), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2), nn.BatchNorm2d(64), nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1), nn.BatchNorm2d(64), nn.ReLU(), nn.Flatten(),
            nn.Linear(3136, 512), nn.BatchNorm1d(512), nn.ReLU(),
            nn.Linear(512, spec.num_actions * 51),
        ]  # fmt: skip
    else:
        torso_layers = [
            nn.Conv2d(channels, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(),
            nn.Linear(1024, 128), nn.BatchNorm1d(128), nn.ReLU(),
            nn.Linear(128, spec.num_actions * 51),
        ]  # fmt: skip
    return nn.Sequential(*torso_layers).to(memory_format=torch.channels_last)


def bare_update(torso: str) -> Callable[[], None]:
    spec = GAMES[torso]
    high = 256 if spec.pixel_scale < 1 else 2
    shape = (TRANSITIONS, *spec.obs_shape)
    observations = torch.randint(0, high, shape, dtype=torch.uint8)
    online, target = bare_network(torso, spec), bare_network(torso, spec)
    for layer in target:
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            layer.track_running_stats = False
    optimizer = torch.optim.Adam(online.parameters(), lr=2.5e-4, eps=0.01 / 32, fused=True)
    support, rows = torch.linspace(-10, 10, 51), torch.arange(32)
    reward, going_on = torch.zeros(32), torch.ones(32)

    def logits(network, obs):
        x = obs.to(torch.float32, memory_format=torch.channels_last) * spec.pixel_scale
        return network(x).view(32, spec.num_actions, 51)

    def update() -> None:
        index = torch.randint(TRANSITIONS, (32,))
        action = torch.randint(spec.num_actions, (32,))
        with torch.no_grad():
            probabilities = logits(target, observations[index]).softmax(-1)
            best = (probabilities * support).sum(-1).argmax(-1)
            moved = (reward[:, None] + 0.99 * going_on[:, None] * support).clamp(-10, 10)
            place = (moved + 10) / 0.4
            low, high = place.floor().clamp(0, 50), place.ceil().clamp(0, 50)
            mass = probabilities[rows, best]
            projected = torch.zeros(32, 51)
            projected.scatter_add_(1, low.long(), mass * (high + (low == high) - place))
            projected.scatter_add_(1, high.long(), mass * (place - low))
        predicted = logits(online, observations[index])[rows, action]
        loss = -(projected * predicted.log_softmax(-1)).sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return update


def milliseconds(update: Callable[[], None], times: int) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        update()
    return (time.perf_counter() - begin) / times * 1000


def main() -> None:
    torch.set_num_threads(1)
    print("one C51 update, BatchNorm, batch 32, one thread; median of rounds that alternate")
    for torso, times in (("nature", 5), ("minatar", 50)):
        updates = {"bare": bare_update(torso), "bnmodes": our_update(torso)}
        if has_compiler():
            updates["compiled"] = our_update(torso, Execution(compile=True))
        measured: dict[str, list[float]] = {name: [] for name in updates}
        for _ in range(ROUNDS + 2):
            for name, update in updates.items():
                measured[name].append(milliseconds(update, times))
        medians = {name: statistics.median(values[2:]) for name, values in measured.items()}
        for name, median in medians.items():
            print(f"{torso:8}  {name:8} {median:6.2f} ms   ratio {median / medians['bare']:.2f}")


if __name__ == "__main__":
    main()
