"""Sub-trajectories of the replay: several steps from one transition on, and what is true of them.

A sub-trajectory goes on while play went on: its steps end with a termination, with a truncated
game's last transition, or with the newest transition, whichever comes first. What stands in the
rows after that belongs to something else; `exists` says which steps are real. A return over its
steps then bootstraps from the true next observation of the last real step, at that step's own
distance, unless that step terminated: over a truncation too.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64
from torch import Tensor

from bnmodes.execution import PLAIN, Execution
from bnmodes.replay.ring import FrameBatch, Index, ObservationBatch, Replay


@dataclass(frozen=True)
class Sequences:
    """`steps` transitions from each of `batch` ones on, in time's order."""

    frames: FrameBatch
    """Of the first observation, and then the newest frame of each next observation."""
    stack: int
    action: Int64[Tensor, "batch steps"]
    reward: Float32[Tensor, "batch steps"]
    terminated: Bool[Tensor, "batch steps"]
    exists: Bool[Tensor, "batch steps"]
    """Whether play reached this step; the first step always exists."""

    @property
    def steps(self) -> int:
        return self.action.shape[1]

    def observation(self, step: int) -> ObservationBatch:
        """Before step `step`; `observation(steps)` is the next observation of the last step."""
        return self.frames[:, step : step + self.stack].flatten(1, 2)

    def last_next_obs(self) -> ObservationBatch:
        """The next observation of the last step that exists."""
        length = self.exists.sum(1)
        window = length[:, None] + torch.arange(self.stack, device=length.device)
        rows = torch.arange(len(length), device=length.device)
        return self.frames[rows[:, None], window].flatten(1, 2)


def gather_sequences(replay: Replay, env_index: Index, transition: Index, steps: int) -> Sequences:
    """From these transitions on, which must be held."""
    ahead = transition[:, None] + np.arange(steps)  # [batch, steps]
    at = (ahead % len(replay.action), env_index[:, None])
    newest, terminated = replay.newest_frame[at], replay.terminated[at]
    unbroken = (ahead < replay.transitions_added) & (newest - newest[:, :1] == np.arange(steps))
    alive = np.ones_like(unbroken)
    alive[:, 1:] = ~np.logical_or.accumulate(terminated, axis=1)[:, :-1]
    window = np.arange(1 - replay.spec.stack, steps + 1)
    return Sequences(
        frames=replay.frames_around(env_index, newest[:, 0], window),
        stack=replay.spec.stack,
        action=replay.to_device(replay.action[at]),
        reward=replay.to_device(replay.reward[at]),
        terminated=replay.to_device(terminated),
        exists=replay.to_device(np.logical_and.accumulate(unbroken & alive, axis=1)),
    )


def shifted(
    frames: FrameBatch,
    pad_pixels: int,
    rng: np.random.Generator,
    execution: Execution = PLAIN,
) -> FrameBatch:
    """Each row's pictures moved together by up to `pad_pixels` each way; edges are repeated.
    Vectors have no pixels: they stay as they are."""
    if pad_pixels == 0 or frames.ndim == 3:
        return frames
    height, width = frames.shape[-2:]
    moves = rng.integers(-pad_pixels, pad_pixels + 1, size=(len(frames), 2, 1))
    rows = (np.arange(height) + moves[:, 0]).clip(0, height - 1)
    columns = (np.arange(width) + moves[:, 1]).clip(0, width - 1)
    pixels = execution.to_device(torch.from_numpy(rows[:, :, None] * width + columns[:, None]))
    flat = frames.flatten(1, 2).flatten(2)  # [batch, time · c, pixels]
    return flat.gather(2, pixels.flatten(1)[:, None].expand_as(flat)).view_as(frames)
