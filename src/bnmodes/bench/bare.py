"""What our abstractions cost: the same work in a bare PyTorch loop, in turns with ours.

A bare loop has `nn.BatchNorm`, PyTorch's own optimizer, observations that lie ready, and no role,
no mode, no metrics. The two alternate in short rounds, so that a noisy machine disturbs both alike;
the ratio of the medians is the result.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import nn

from bnmodes.agents.c51 import C51Agent, C51Settings
from bnmodes.agents.registry import arm_settings
from bnmodes.bench.cases import Case
from bnmodes.bench.measure import Work
from bnmodes.envs.contract import EnvSpec, Step
from bnmodes.envs.registry import env_suite, make_env

Loop = Callable[[], Callable[[], None]]
"""Sets up a loop, and gives one turn of it."""

ENVS, TEST_ENVS, STEPS, MINIBATCHES, EPOCHS = 128, 8, 32, 32, 2
TRANSITIONS, BATCH, ATOMS = 2000, 32, 51
SPECS = {
    "atari": EnvSpec("random frames", 6, (1, 84, 84), 4, 1 / 255, 4),
    "minatar": EnvSpec("random planes", 3, (4, 10, 10), 1, 1.0, 1),
}


def ratios(rounds: int) -> dict[str, float]:
    """Our time over the bare loop's, by what is timed."""
    pairs: dict[str, tuple[Loop, Loop, int]] = {
        "c51 update, atari network": (partial(_updates, "atari"), partial(bare_c51, "atari"), 3),
        "c51 update, minatar network": (
            partial(_updates, "minatar"),
            partial(bare_c51, "minatar"),
            30,
        ),
        "pqn rollout, minatar/breakout": (
            lambda: (
                Work(
                    Case(
                        "pqn", "bn-batch", "minatar/breakout", {"bootstrap_source": "acting-cache"}
                    )
                ).cycle
            ),
            partial(bare_pqn, "minatar/breakout"),
            1,
        ),
    }
    torch.set_num_threads(1)
    return {name: _ratio(ours(), bare(), n, rounds) for name, (ours, bare, n) in pairs.items()}


def _ratio(ours: Callable[[], None], bare: Callable[[], None], times: int, rounds: int) -> float:
    taken: list[tuple[float, float]] = []
    for _ in range(rounds + 1):
        taken.append((_seconds(ours, times), _seconds(bare, times)))
    ours_median, bare_median = map(statistics.median, zip(*taken[1:], strict=True))
    return ours_median / bare_median


def _seconds(work: Callable[[], None], times: int) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        work()
    return time.perf_counter() - begin


def _random_obs(spec: EnvSpec, rows: int) -> np.ndarray:
    high = 256 if spec.pixel_scale < 1 else 2
    return np.random.default_rng(0).integers(0, high, (rows, *spec.obs_shape), dtype=np.uint8)


def _updates(suite: str) -> Callable[[], None]:
    """One C51 update, with its sampling, of an agent whose replay holds random observations."""
    spec = SPECS[suite]
    changes = {"torso": "auto", "replay_capacity": TRANSITIONS}
    settings = arm_settings("c51", "bn-batch", "atari", changes)
    assert isinstance(settings, C51Settings)
    agent = C51Agent(settings, spec, 0, 10**6)
    pictures = _random_obs(spec, 50)
    agent.begin(pictures[:1])
    going_on, reward = np.zeros(1, bool), np.zeros(1, np.float32)
    for number in range(TRANSITIONS):
        obs = pictures[[number % len(pictures)]]
        agent.observe(np.zeros(1, np.int64), Step(obs, obs, reward, going_on, going_on))
    return partial(agent.make_updates, 1)


def bare_network(suite: str, channels: int, outputs: int) -> nn.Sequential:
    if suite == "atari":
        layers = [
            nn.Conv2d(channels, 32, 8, 4), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2), nn.BatchNorm2d(64), nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1), nn.BatchNorm2d(64), nn.ReLU(), nn.Flatten(),
            nn.Linear(3136, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, outputs),
        ]  # fmt: skip
    else:
        layers = [
            nn.Conv2d(channels, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(),
            nn.Linear(1024, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, outputs),
        ]  # fmt: skip
    network = nn.Sequential(*layers)
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


def _floats(obs: torch.Tensor, scale: float) -> torch.Tensor:
    return obs.to(torch.float32, memory_format=torch.channels_last) * scale


def bare_c51(suite: str) -> Callable[[], None]:
    spec = SPECS[suite]
    observations = torch.from_numpy(_random_obs(spec, TRANSITIONS))
    channels, outputs = spec.obs_shape[0], spec.num_actions * ATOMS
    online, target = (bare_network(suite, channels, outputs) for _ in range(2))
    for layer in target:
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            layer.track_running_stats = False
    optimizer = torch.optim.Adam(online.parameters(), lr=2.5e-4, eps=0.01 / 32, fused=True)
    support, rows = torch.linspace(-10, 10, ATOMS), torch.arange(BATCH)
    reward, going_on = torch.zeros(BATCH), torch.ones(BATCH)

    def logits(network: nn.Module, obs: torch.Tensor) -> torch.Tensor:
        return network(_floats(obs, spec.pixel_scale)).view(BATCH, spec.num_actions, ATOMS)

    def update() -> None:
        index = torch.randint(TRANSITIONS, (BATCH,))
        action = torch.randint(spec.num_actions, (BATCH,))
        with torch.no_grad():
            probabilities = logits(target, observations[index]).softmax(-1)
            best = (probabilities * support).sum(-1).argmax(-1)
            moved = (reward[:, None] + 0.99 * going_on[:, None] * support).clamp(-10, 10)
            place = (moved + 10) / 0.4
            low, high = place.floor().clamp(0, 50), place.ceil().clamp(0, 50)
            mass = probabilities[rows, best]
            projected = torch.zeros(BATCH, ATOMS)
            projected.scatter_add_(1, low.long(), mass * (high + (low == high) - place))
            projected.scatter_add_(1, high.long(), mass * (place - low))
        predicted = logits(online, observations[index])[rows, action]
        loss = -(projected * predicted.log_softmax(-1)).sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return update


def bare_pqn(game: str) -> Callable[[], None]:
    """One rollout with its two epochs; acting values are kept as next values."""
    games = make_env(game, ENVS + TEST_ENVS, seed=0)
    spec, obs = games.spec, torch.from_numpy(games.reset())
    network = bare_network(env_suite(game), spec.obs_shape[0], spec.num_actions)
    optimizer = torch.optim.RAdam(network.parameters(), lr=5e-4, foreach=True)

    def values(rows: torch.Tensor) -> torch.Tensor:
        return network(_floats(rows, spec.pixel_scale))

    def rollout() -> None:
        nonlocal obs
        seen, ended, rewards, best_values, taken = [], [], [], [], []
        for _ in range(STEPS):
            with torch.no_grad():
                value, action = values(obs).max(-1)
            step = games.step(action.numpy())
            seen.append(obs[:ENVS].clone())
            taken.append(action[:ENVS])
            best_values.append(value[:ENVS])
            rewards.append(np.sign(step.reward[:ENVS]))
            ended.append(step.terminated[:ENVS])
            obs = torch.from_numpy(step.obs)
        with torch.no_grad():
            last = values(obs[:ENVS]).amax(-1)
        going_on = 1 - torch.from_numpy(np.array(ended, dtype=np.float32))
        reward = torch.from_numpy(np.array(rewards))
        following, longer = [*best_values[1:], last], last
        targets: list[torch.Tensor] = []
        for t in reversed(range(STEPS)):
            mixed = 0.65 * longer + 0.35 * following[t]
            longer = reward[t] + 0.99 * going_on[t] * mixed
            targets.insert(0, longer)
        all_obs, action, target = torch.cat(seen), torch.cat(taken), torch.cat(targets)
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(all_obs)).split(len(all_obs) // MINIBATCHES):
                q = values(all_obs[rows]).gather(1, action[rows, None]).squeeze(1)
                loss = 0.5 * (q - target[rows]).square().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(network.parameters(), 10.0)
                optimizer.step()

    return rollout
