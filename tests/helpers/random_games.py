"""Random games by the vector contract that remember every whole transition."""

from dataclasses import dataclass

import numpy as np

from bnmodes.envs.contract import EnvSpec, Step
from bnmodes.replay.ring import Replay


def make_spec(stack: int, frame_shape: tuple[int, ...] = (2, 2, 3)) -> EnvSpec:
    dtype = "uint8" if len(frame_shape) == 3 else "float32"
    return EnvSpec("random", 4, frame_shape, stack, 1.0, 1, dtype)


VECTORS = make_spec(1, (5,))


@dataclass
class Transition:
    obs: np.ndarray
    action: int
    reward: float
    next_obs: np.ndarray
    terminated: bool
    starts_before: int
    """Games begun in its environment until it was made."""


class RandomGames:
    """Plays noise by the vector contract and remembers each whole transition, frame upon frame."""

    def __init__(self, spec: EnvSpec, num_envs: int, ending: float | np.ndarray, seed: int) -> None:
        self.spec, self.num_envs, self.ending = spec, num_envs, ending
        self.rng = np.random.default_rng(seed)
        self.history: list[list[Transition]] = [[] for _ in range(num_envs)]
        self.starts = [0] * num_envs

    def noise(self, channels: int) -> np.ndarray:
        shape = (channels, *self.spec.frame_shape[1:])
        if self.spec.dtype == "float32":
            return self.rng.normal(size=shape).astype(np.float32)
        return self.rng.integers(0, 256, shape, dtype=np.uint8)

    def first_obs(self, env: int) -> np.ndarray:
        self.starts[env] += 1
        return self.noise(self.spec.obs_shape[0])

    def begin(self, replay: Replay) -> None:
        self.obs = [self.first_obs(env) for env in range(self.num_envs)]
        replay.begin(np.stack(self.obs))

    def decide(self, *replays: Replay) -> None:
        actions = self.rng.integers(0, 4, self.num_envs)
        rewards = self.rng.normal(size=self.num_envs).astype(np.float32)
        ends = self.rng.random(self.num_envs) < self.ending
        terminated = self.rng.random(self.num_envs) < np.where(ends, 0.5, 0.2)  # else truncated
        next_observations = []
        for env, obs in enumerate(self.obs):
            channels = self.spec.frame_shape[0]
            next_obs = np.concatenate([obs[channels:], self.noise(channels)])
            next_observations.append(next_obs)
            self.history[env].append(
                Transition(
                    obs,
                    int(actions[env]),
                    float(rewards[env]),
                    next_obs,
                    bool(terminated[env]),
                    self.starts[env],
                )
            )
            self.obs[env] = self.first_obs(env) if ends[env] else next_obs
        raw = np.full(self.num_envs, 99, np.float32)
        step = Step(np.stack(self.obs), np.stack(next_observations), raw, terminated, ends)
        for replay in replays:
            replay.add(actions, rewards, step)

    def still_held(self, env: int, replay: Replay, capacity: int) -> list[Transition]:
        """The newest of one environment, within its share of the capacity and its frames: `stack`
        for the first observation, one for each transition, `stack` for each game begun since."""
        newest = self.history[env][::-1][: capacity // self.num_envs]
        room, stack = len(replay.frames), self.spec.stack

        def frames(count: int, transition: Transition) -> int:
            return stack + count + stack * (self.starts[env] - transition.starts_before)

        return [t for count, t in enumerate(newest, 1) if frames(count, t) <= room][::-1]
