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
    moves: Int64[Tensor, "batch observations 2"] | None = None
    """By how many pixels each of the steps + 1 observations is shown shifted, down and right."""

    @property
    def steps(self) -> int:
        return self.action.shape[1]

    def observation(self, step: int) -> ObservationBatch:
        """Before step `step`; `observation(steps)` is the next observation of the last step."""
        obs = self.frames[:, step : step + self.stack].flatten(1, 2)
        return obs if self.moves is None else _moved(obs, self.moves[:, step])

    def last_next_obs(self) -> ObservationBatch:
        """The next observation of the last step that exists."""
        length = self.exists.sum(1)
        window = length[:, None] + torch.arange(self.stack, device=length.device)
        rows = torch.arange(len(length), device=length.device)
        obs = self.frames[rows[:, None], window].flatten(1, 2)
        return obs if self.moves is None else _moved(obs, self.moves[rows, length])


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


def random_moves(
    sequences: Sequences,
    pad_pixels: int,
    rng: np.random.Generator,
    execution: Execution = PLAIN,
) -> Int64[Tensor, "batch observations 2"] | None:
    """For each observation by itself, up to `pad_pixels` down and right, or up and left. None where
    nothing moves: vectors have no pixels."""
    if pad_pixels == 0 or sequences.frames.ndim == 3:
        return None
    shape = (len(sequences.action), sequences.steps + 1, 2)
    moves = rng.integers(-pad_pixels, pad_pixels + 1, size=shape)
    return execution.to_device(torch.from_numpy(moves))


def _moved(
    obs: ObservationBatch, moves: Int64[Tensor, "batch 2"]
) -> ObservationBatch:  # [batch, channels, height, width]
    """Each row's pictures moved together by its own rows and columns; edges are repeated."""
    height, width = obs.shape[-2:]
    rows = (torch.arange(height, device=obs.device) + moves[:, :1]).clamp(0, height - 1)
    columns = (torch.arange(width, device=obs.device) + moves[:, 1:]).clamp(0, width - 1)
    pixels = (rows[:, :, None] * width + columns[:, None]).flatten(1)  # [batch, pixels]
    flat = obs.flatten(2)
    return flat.gather(2, pixels[:, None].expand_as(flat)).view_as(obs)
