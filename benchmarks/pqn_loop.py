"""What our abstractions cost: whole PQN rollouts with BatchNorm, beside a bare PyTorch loop.

The bare loop does the same work and nothing else: the same games in Python lists or arrays,
`nn.BatchNorm`, foreach RAdam, the acting values kept as next values, nothing recorded. The two
alternate, so that a noisy machine disturbs both alike; the ratio of the medians is the result.

    make bench
"""

import statistics
import sys
from collections.abc import Callable
from time import perf_counter

import numpy as np
import torch
from torch import nn

from bnmodes.agents.pqn import PQNAgent
from bnmodes.agents.registry import arm_settings
from bnmodes.envs.registry import env_suite, make_env

TRAINING, TEST, STEPS, MINIBATCHES, EPOCHS = 128, 8, 32, 32, 2
GAMES = {"minatar/breakout": 8, "minatar/space_invaders": 8, "atari/Pong": 2}
"""Rollouts of each, after one that warms up."""


def our_rollouts(game: str, bootstrap_source: str) -> Callable[[], None]:
    changes = {"bootstrap_source": bootstrap_source}
    settings = arm_settings("pqn", "bn-batch", env_suite(game), changes)
    games = make_env(game, settings.env_rows, seed=0)
    agent = PQNAgent(settings, games.spec, seed=0, total_decisions=1)
    obs = games.reset()
    agent.begin(obs)

    def rollout() -> None:
        nonlocal obs
        for _ in range(STEPS):
            actions = agent.act(obs)
            step = games.step(actions)
            agent.observe(actions, step)
            agent.learn()
            obs = step.obs

    return rollout


def bare_network(game: str, channels: int, num_actions: int) -> nn.Sequential:
    if env_suite(game) == "atari":
        layers = [
            nn.Conv2d(channels, 32, 8, 4), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2), nn.BatchNorm2d(64), nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1), nn.BatchNorm2d(64), nn.ReLU(), nn.Flatten(),
            nn.Linear(3136, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, num_actions),
        ]  # fmt: skip
    else:
        layers = [
            nn.Conv2d(channels, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(),
            nn.Linear(1024, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, num_actions),
        ]  # fmt: skip
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)


def original_minatar(game: str) -> tuple[int, int, Callable, Callable]:
    """Channels, actions, observe and step of the package's own games."""
    from minatar import Environment

    games = [Environment(game.split("/")[1]) for _ in range(TRAINING + TEST)]
    actions = games[0].minimal_action_set()

    def observe() -> torch.Tensor:
        planes = np.stack([one.state() for one in games])  # [136, 10, 10, channels]
        return torch.from_numpy(planes).permute(0, 3, 1, 2)

    def step(chosen: list[int]) -> tuple[list[float], list[bool]]:
        rewards, ends = zip(
            *(one.act(actions[a]) for one, a in zip(games, chosen, strict=True)), strict=True
        )
        for one, end in zip(games, ends, strict=True):
            if end:
                one.reset()
        return rewards, ends

    return games[0].n_channels, len(actions), observe, step


def bare_atari(game: str) -> tuple[int, int, Callable, Callable]:
    games = make_env(game, TRAINING + TEST, seed=0)
    obs = games.reset()

    def observe() -> torch.Tensor:
        return torch.from_numpy(obs)

    def step(chosen: list[int]):
        nonlocal obs
        result = games.step(np.array(chosen))
        obs = result.obs
        return np.sign(result.reward).tolist(), result.terminated.tolist()

    return games.spec.obs_shape[0], games.spec.num_actions, observe, step


def bare_rollouts(game: str) -> Callable[[], None]:
    make = bare_atari if env_suite(game) == "atari" else original_minatar
    channels, num_actions, observe, step = make(game)
    scale = 1 / 255 if env_suite(game) == "atari" else 1.0
    network = bare_network(game, channels, num_actions)
    optimizer = torch.optim.RAdam(network.parameters(), lr=5e-4, foreach=True)

    def floats(obs: torch.Tensor) -> torch.Tensor:
        return obs.to(torch.float32, memory_format=torch.channels_last) * scale

    def rollout() -> None:
        seen, done, rewards, values, taken = [], [], [], [], []
        for _ in range(STEPS):
            obs = observe()
            with torch.no_grad():
                value, action = network(floats(obs)).max(-1)
            reward, end = step(action.tolist())
            seen.append(obs[:TRAINING])
            taken.append(action[:TRAINING])
            values.append(value[:TRAINING])
            rewards.append(reward[:TRAINING])
            done.append(end[:TRAINING])
        with torch.no_grad():
            last = network(floats(observe()[:TRAINING])).amax(-1)
        going_on = 1 - torch.tensor(done, dtype=torch.float32)
        reward = torch.tensor(rewards, dtype=torch.float32)
        following = [*values[1:], last]
        targets, longer = [], last
        for t in reversed(range(STEPS)):
            mixed = 0.65 * longer + 0.35 * following[t]
            longer = reward[t] + 0.99 * going_on[t] * mixed
            targets.insert(0, longer)
        obs, action, target = torch.cat(seen), torch.cat(taken), torch.cat(targets)
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(obs)).split(len(obs) // MINIBATCHES):
                q = network(floats(obs[rows])).gather(1, action[rows, None]).squeeze(1)
                loss = 0.5 * (q - target[rows]).square().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(network.parameters(), 10.0)
                optimizer.step()

    return rollout


def measure(game: str, rounds: int) -> None:
    work = {
        "bare": bare_rollouts(game),
        "bnmodes": our_rollouts(game, "acting-cache"),
        "recompute": our_rollouts(game, "recompute"),
    }
    speeds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds + 1):
        for name, rollout in work.items():
            begin = perf_counter()
            rollout()
            speeds[name].append(TRAINING * STEPS / (perf_counter() - begin))
    bare, ours, recompute = (statistics.median(values[1:]) for values in speeds.values())
    print(
        f"{game:24} bare {bare:7,.0f}   bnmodes {ours:7,.0f} ({ours / bare:.2f}×)   "
        f"recomputed next values {recompute:7,.0f}"
    )


def main() -> None:
    torch.set_num_threads(1)
    print("PQN, BatchNorm, 128 + 8 games × 32 steps, one thread: transitions/s")
    for game in sys.argv[1:] or GAMES:
        measure(game, GAMES[game])


if __name__ == "__main__":
    main()
