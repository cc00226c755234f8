"""A ring of transitions that stores each frame once and every game's true last frame.

Each environment has two rings. The *frame ring* holds what was seen: all `stack` frames of a
game's first observation (so the emulator's own padding comes back), then the newest frame of each
true next observation. The *transition ring* holds what was done: action, reward, terminated, and
where in the frame ring the newest frame of its observation stands. One window of `stack + 1`
consecutive frames is thus an observation and its next observation:

    frames       p  a  b  c  d │ q  e  f ...    stack 2: two games, begun with (p, a) and (q, e)
    transitions     0  1  2         3  4        each stands at the newest frame it was taken on;
                                                d is what followed 2, and was never acted on

A frame is a uint8 picture or a float32 vector; a vector is a whole observation (`stack` is 1).

A lost life only marks its transition as terminated; the game, and the stack, go on. A truncated
game's last transition is not terminated and bootstraps from its own last frame.

Transitions and frames are counted from the start of the run and never renumbered; a ring's index
is the count modulo its length. Environment e holds its transitions `oldest[e]` to
`transitions_added - 1` and no others: sampling needs no list of valid places and no rejection.
Anything kept per transition (a priority, say) belongs in an array shaped like `action`; two
successive transitions are of one unbroken stretch of play exactly when their `newest_frame` differ
by one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64, UInt8
from torch import Tensor

from bnmodes.envs.contract import EnvSpec, Observations, Step
from bnmodes.errors import UsageError
from bnmodes.execution import PLAIN, Execution

Index = Int64[np.ndarray, " batch"]
ObservationBatch = UInt8[Tensor, "batch channels height width"] | Float32[Tensor, "batch numbers"]
FrameBatch = UInt8[Tensor, "batch time c h w"] | Float32[Tensor, "batch time numbers"]


@dataclass(frozen=True)
class Batch:
    """Transitions for one update."""

    obs: ObservationBatch
    action: Int64[Tensor, " batch"]
    reward: Float32[Tensor, " batch"]
    next_obs: ObservationBatch
    """Shares memory with `obs`: do not write into either."""
    terminated: Bool[Tensor, " batch"]
    moment_obs: Tensor | None = None
    """Next observations of other transitions, drawn where only their statistics are used."""

    def split(self, size: int) -> "Iterator[Batch]":
        """Minibatches of `size` rows, in their order."""
        parts = (getattr(self, f.name).split(size) for f in fields(self) if f.name != "moment_obs")
        return (Batch(*rows) for rows in zip(*parts, strict=True))


def _frames_per_env(transitions: int, stack: int) -> int:
    """Room for `transitions` in games of 5·stack² decisions or more on average (80 with stack 4,
    5 with stack 1), at 5% and 20% more frames than transitions: each game costs `stack` frames
    beyond one a decision. In shorter games the oldest transitions leave before the ring of
    transitions is full. The constant is for one change of games inside a very small ring."""
    return transitions + transitions // (5 * stack) + 2 * stack


class Replay:
    """The transitions of all environments, sampled uniformly."""

    def __init__(
        self, spec: EnvSpec, num_envs: int, capacity: int, execution: Execution = PLAIN
    ) -> None:
        """Holds at most `capacity` transitions of all environments together."""
        if capacity < num_envs:
            raise UsageError(
                f"a replay of {capacity} transitions has no room for {num_envs} environments: "
                "choose a capacity of at least one transition for each."
            )
        self.spec = spec
        self.execution = execution
        self.num_envs = num_envs
        self._env_indices = np.arange(num_envs)
        self._window = np.arange(1 - spec.stack, 2)
        self._max_transitions = capacity // num_envs
        self._max_frames = _frames_per_env(self._max_transitions, spec.stack)

        # Time comes first, so that the used part of a ring is one contiguous block; the host's
        # memory is taken from the system only as the rings fill.
        frames = (self._max_frames, num_envs, *spec.frame_shape)
        if execution.on_accelerator and execution.replay_memory == "device":
            self.frames = execution.zeros(frames, getattr(torch, spec.dtype))
        else:
            self.frames = torch.from_numpy(np.zeros(frames, spec.dtype))
        self._rows = self.frames.flatten(0, 1).flatten(1)  # [frames · envs, numbers], no copy
        transitions = (self._max_transitions, num_envs)
        self.newest_frame = np.zeros(transitions, np.int64)
        self.action = np.zeros(transitions, np.int64)
        self.reward = np.zeros(transitions, np.float32)
        self.terminated = np.zeros(transitions, np.bool_)

        self.transitions_added = 0
        """To each environment, since the run began."""
        self.oldest = np.zeros(num_envs, np.int64)
        """The first transition of each environment that is still held."""
        self._frames_seen = np.zeros(num_envs, np.int64)

    def __len__(self) -> int:
        return int((self.transitions_added - self.oldest).sum())

    @property
    def nbytes(self) -> int:
        rings = (self.frames, self.newest_frame, self.action, self.reward, self.terminated)
        return sum(ring.nbytes for ring in rings)

    def begin(self, obs: Observations) -> None:
        """A new game starts in every environment; the one under way there is not continued."""
        self._store_whole_stack(self._env_indices, obs)

    def add(
        self,
        action: Int64[np.ndarray, " envs"],
        reward: Float32[np.ndarray, " envs"],
        step: Step,
    ) -> None:
        """One decision of every environment; `reward` is the learner's copy, clipped or not."""
        if not self._frames_seen[0]:
            raise RuntimeError("Replay.begin comes before the first Replay.add.")
        place = self.transitions_added % self._max_transitions
        self.newest_frame[place] = self._frames_seen - 1
        self.action[place] = action
        self.reward[place] = reward
        self.terminated[place] = step.terminated
        self.transitions_added += 1
        np.maximum(self.oldest, self.transitions_added - self._max_transitions, out=self.oldest)

        channels = self.spec.frame_shape[0]
        self._store_frame(self._env_indices, step.next_obs[:, -channels:])
        if step.game_over.any():
            self._store_whole_stack(np.flatnonzero(step.game_over), step.obs)

    def sample(self, batch_size: int, rng: np.random.Generator) -> Batch:
        """Uniform over the transitions held, with replacement."""
        if not len(self):
            raise UsageError("the replay is still empty: let the agent act before it learns.")
        ends = np.cumsum(self.transitions_added - self.oldest)
        drawn = rng.integers(ends[-1], size=batch_size)
        env_index = np.searchsorted(ends, drawn, side="right")
        return self.gather(env_index, self.transitions_added - (ends[env_index] - drawn))

    def gather(self, env_index: Index, transition: Index) -> Batch:
        """These transitions, all of which must be held:
        `oldest[env_index] <= transition < transitions_added`."""
        at = (transition % self._max_transitions, env_index)
        frames = self.frames_around(env_index, self.newest_frame[at], self._window)
        return Batch(
            obs=frames[:, :-1].flatten(1, 2),  # [batch, stack·c, h, w]
            action=self.to_device(self.action[at]),
            reward=self.to_device(self.reward[at]),
            next_obs=frames[:, 1:].flatten(1, 2),
            terminated=self.to_device(self.terminated[at]),
        )

    def frames_around(
        self, env_index: Index, frame: Index, window: Int64[np.ndarray, " window"]
    ) -> FrameBatch:
        """The frames at the distances `window` from one frame of each row's environment, on the
        device: [batch, window, *frame_shape]."""
        slots = (frame[:, None] + window) % self._max_frames
        # Whole rows of two axes: with more axes, indexing by tensors takes eight times as long.
        rows = torch.from_numpy((slots * self.num_envs + env_index[:, None]).ravel())
        picked = self._rows.index_select(0, self._beside_frames(rows))
        return self.execution.to_device(picked).view(*slots.shape, *self.spec.frame_shape)

    def to_device(self, array: np.ndarray) -> Tensor:
        return self.execution.to_device(torch.from_numpy(array))

    def _beside_frames(self, tensor: Tensor) -> Tensor:
        return self.execution.to_device(tensor) if self.frames.device.type != "cpu" else tensor

    def state(self) -> dict[str, Any]:
        """The used part of the rings, as views (of frames on an accelerator, a copy): write it
        out before the next `add`."""
        return {
            "layout": self._layout,
            "transitions_added": self.transitions_added,
            "oldest": self.oldest,
            "frames_seen": self._frames_seen,
            "frames": self.frames[: self._frames_seen.max()].cpu().numpy(),
            "newest_frame": self.newest_frame[: self.transitions_added],
            "action": self.action[: self.transitions_added],
            "reward": self.reward[: self.transitions_added],
            "terminated": self.terminated[: self.transitions_added],
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from `state`; follow with `begin` where the games themselves could not go on."""
        if state["layout"] != self._layout:
            raise UsageError(
                f"the saved replay has {state['layout']} but this run asks for {self._layout}: "
                "resume with the settings the run was started with."
            )
        self.transitions_added = state["transitions_added"]
        self.oldest[:] = state["oldest"]
        self._frames_seen[:] = state["frames_seen"]
        self.frames[: len(state["frames"])].copy_(torch.from_numpy(state["frames"]))
        for name in ("newest_frame", "action", "reward", "terminated"):
            getattr(self, name)[: len(state[name])] = state[name]

    @property
    def _layout(self) -> dict[str, Any]:
        return {
            "transitions_per_environment": self._max_transitions,
            "environments": self.num_envs,
            "stack": self.spec.stack,
            "frame_shape": list(self.spec.frame_shape),
            "dtype": self.spec.dtype,
        }

    def _store_whole_stack(self, envs: Int64[np.ndarray, " some"], obs: Observations) -> None:
        stacked = obs[envs].reshape(len(envs), self.spec.stack, *self.spec.frame_shape)
        for age in range(self.spec.stack):
            self._store_frame(envs, stacked[:, age])

    def _store_frame(self, envs: Int64[np.ndarray, " some"], frame: Observations) -> None:
        rows = self._frames_seen[envs] % self._max_frames * self.num_envs + envs
        numbers = torch.from_numpy(frame).reshape(len(envs), -1)
        self._rows.index_copy_(
            0, self._beside_frames(torch.from_numpy(rows)), self._beside_frames(numbers)
        )
        self._frames_seen[envs] += 1
        # Every transition has its own newest frame, so one frame overwritten breaks at most one
        # window: the oldest.
        oldest = self.oldest[envs]
        first_needed = self.newest_frame[oldest % self._max_transitions, envs] - self.spec.stack + 1
        broken = first_needed < self._frames_seen[envs] - self._max_frames
        self.oldest[envs] += broken & (oldest < self.transitions_added)
