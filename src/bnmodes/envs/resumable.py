"""Exact resume of environments that cannot be saved: their actions are played again.

An environment that is deterministic given its seed needs no saved state. Each one is seeded from a
stream of ours, the actions since then are logged, and a checkpoint holds seeds and actions. To
resume, every environment gets its seed again and replays its actions; all of them end at the same
moment, the ones with shorter logs are seeded later. If the observations and the sums of rewards
are then what they were, the games go on as if nothing had happened. If not (the environment is not
deterministic, or its library has changed), `load_state` returns None and new games begin.

Environments are seeded again at the end of a game, so that a log stays short: at the first end
after `reseed_after` decisions where seeding is slow, at every end where it is not.
"""

import hashlib
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from bnmodes.envs.contract import EnvSpec, Observations, Step

SEED_LIMIT = 2**31
"""Seeds are below it, because ale-py takes no larger ones."""


class ActionLog:
    """Of each environment the seed it was last given, its actions and its reward since then."""

    def __init__(self, num_envs: int, num_actions: int) -> None:
        self.seeds = np.zeros(num_envs, np.int64)
        self.lengths = np.zeros(num_envs, np.int64)
        self.reward_sums = np.zeros(num_envs)
        self._rows = np.arange(num_envs)
        self._actions = np.zeros((num_envs, 1024), np.min_scalar_type(max(1, num_actions - 1)))

    def clear(self, seeded: Bool[np.ndarray, " envs"], seeds: Int64[np.ndarray, " seeded"]) -> None:
        """These environments were just seeded."""
        self.seeds[seeded] = seeds
        self.lengths[seeded] = 0
        self.reward_sums[seeded] = 0

    def add(
        self, actions: Int64[np.ndarray, " envs"], reward: Float32[np.ndarray, " envs"]
    ) -> None:
        if self.lengths.max() == self._actions.shape[1]:
            self._actions = np.concatenate([self._actions, np.zeros_like(self._actions)], axis=1)
        self._actions[self._rows, self.lengths] = actions
        self.lengths += 1
        self.reward_sums += reward

    def state(self) -> dict[str, Any]:
        actions = [row[:n] for row, n in zip(self._actions, self.lengths, strict=True)]
        return {
            "seeds": self.seeds.copy(),
            "lengths": self.lengths.copy(),
            "actions": np.concatenate(actions),  # one environment's after the other's
            "reward_sums": self.reward_sums.copy(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        self.seeds[:], self.lengths[:] = state["seeds"], state["lengths"]
        self.reward_sums[:] = state["reward_sums"]
        room = max(self._actions.shape[1], int(self.lengths.max()))
        self._actions = np.zeros((len(self.seeds), room), self._actions.dtype)
        ends = np.cumsum(self.lengths)
        for row, (length, end) in enumerate(zip(self.lengths, ends, strict=True)):
            self._actions[row, :length] = state["actions"][end - length : end]

    def actions_before_end(self, left: int) -> Int64[np.ndarray, " envs"]:
        """Each environment's action `left` decisions before the end of its log; 0 before its
        beginning."""
        place = self.lengths - left
        actions = self._actions[self._rows, np.maximum(place, 0)]
        return np.where(place >= 0, actions, 0).astype(np.int64)


class ResumableVector:
    """The part of the vector contract that is about seeds and resuming.

    A subclass sets `spec` and `num_envs`, calls `_seed_with`, and implements `_begin` and `_play`.
    """

    spec: EnvSpec
    num_envs: int

    def _seed_with(self, stream: np.random.Generator, reseed_after: int = 0) -> None:
        """`stream` draws the seeds; `reseed_after` is in decisions."""
        self._stream = stream
        self._log = ActionLog(self.num_envs, self.spec.num_actions)
        self._reseed_after = reseed_after
        self._everywhere = np.ones(self.num_envs, np.bool_)

    def _begin(
        self, chosen: Bool[np.ndarray, " envs"], seeds: Int64[np.ndarray, " chosen"]
    ) -> Observations:
        """Seed the chosen environments and begin a game in each; the observations of them all."""
        raise NotImplementedError

    def _play(
        self, actions: Int64[np.ndarray, " envs"], running: Bool[np.ndarray, " envs"]
    ) -> Step:
        """One decision, without seeding anything. Those that are not running are about to be seeded
        again: whatever happens to them does not matter."""
        raise NotImplementedError

    def reset(self) -> Observations:
        return self._begin_anew(self._everywhere)

    def step(self, actions: Int64[np.ndarray, " envs"]) -> Step:
        step = self._play(actions, self._everywhere)
        self._log.add(actions, step.reward)
        self._obs = step.obs
        seeded = step.game_over & (self._log.lengths >= self._reseed_after)
        if not seeded.any():
            return step
        obs = self._begin_anew(seeded)
        return replace(step, obs=obs)

    def _begin_anew(self, chosen: Bool[np.ndarray, " envs"]) -> Observations:
        seeds = self._stream.integers(SEED_LIMIT, size=int(chosen.sum()))
        self._obs = self._begin(chosen, seeds)
        self._log.clear(chosen, seeds)
        return self._obs

    def state(self) -> dict[str, Any]:
        return self._log.state() | {
            "stream": self._stream.bit_generator.state,
            "observations": _digest(self._obs),
        }

    def load_state(self, state: dict[str, Any]) -> Observations | None:
        log = ActionLog(self.num_envs, self.spec.num_actions)
        log.load_state(state)
        replayed = self._play_again(log)
        if replayed is None:
            return None
        obs, reward_sums = replayed
        same_rewards = np.array_equal(reward_sums, log.reward_sums, equal_nan=True)
        if not same_rewards or _digest(obs) != state["observations"]:
            return None
        self._obs, self._log = obs, log
        self._stream.bit_generator.state = state["stream"]
        return obs

    def _play_again(
        self, log: ActionLog
    ) -> tuple[Observations, Float64[np.ndarray, " envs"]] | None:
        """Observations and sums of rewards at the end of the log; None where a game ends that
        went on when the log was written."""
        reward_sums = np.zeros(self.num_envs)
        for left in range(int(log.lengths.max()), -1, -1):  # decisions until all are at their end
            starting = log.lengths == left
            if starting.any():
                obs = self._begin(starting, log.seeds[starting])
            if left == 0:
                break
            running = log.lengths >= left
            step = self._play(log.actions_before_end(left), running)
            obs = step.obs
            reward_sums[running] += step.reward[running]
            played = log.lengths - left + 1
            if (step.game_over & running & (played >= self._reseed_after)).any():
                return None
        return obs, reward_sums


def _digest(obs: Observations) -> str:
    return hashlib.sha256(np.ascontiguousarray(obs).data).hexdigest()
