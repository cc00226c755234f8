"""What every vector of environments gives an agent, whatever suite it comes from.

An observation is a uint8 picture [channels, height, width] or a float32 vector [numbers]. An agent
is built from the `EnvSpec` alone, and sees one `Step` for each decision.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32, Int64, UInt8

from bnmodes.plugins import is_reference

Observations = UInt8[np.ndarray, "envs channels height width"] | Float32[np.ndarray, "envs numbers"]
Observation = UInt8[np.ndarray, "channels height width"] | Float32[np.ndarray, " numbers"]
Picture = UInt8[np.ndarray, "rows columns 3"]


@dataclass(frozen=True)
class EnvSpec:
    """What an agent must know to be built for an environment."""

    name: str
    """As `bnmodes train --env` takes it."""
    num_actions: int
    frame_shape: tuple[int, ...]
    """One frame: (channels, height, width) of a picture, (numbers,) of a vector."""
    stack: int
    """Frames in an observation, oldest first, joined along the first axis; 1 for vectors."""
    pixel_scale: float
    """What the network multiplies a picture's bytes by; vectors are taken as they are."""
    frames_per_decision: int
    """Frames of the game that pass while one action is repeated."""
    dtype: Literal["uint8", "float32"] = "uint8"
    """Of an observation: uint8 for pictures, float32 for vectors."""

    @property
    def suite(self) -> str:
        """Where the environment comes from: a suite of `envs.registry`, e.g. minatar, or file."""
        return "file" if is_reference(self.name) else self.name.partition("/")[0]

    @property
    def is_picture(self) -> bool:
        return len(self.frame_shape) == 3

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """Of one observation, all its frames together."""
        return (self.stack * self.frame_shape[0], *self.frame_shape[1:])

    @property
    def obs_bytes(self) -> int:
        """Memory of one observation."""
        return math.prod(self.obs_shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Step:
    """One decision of every environment. An episode was truncated where `game_over & ~terminated`.

    `obs` and `next_obs` may be one array where no game ended: write into neither.
    """

    obs: Observations
    """What to act on next: `next_obs`, or the first observation of a new game."""
    next_obs: Observations
    """The true next observation of the action taken, also where a game ended."""
    reward: Float32[np.ndarray, " envs"]
    """Raw, never clipped."""
    terminated: Bool[np.ndarray, " envs"]
    """`next_obs` has no value: the game was lost or won, or a life was lost."""
    game_over: Bool[np.ndarray, " envs"]
    """`obs` begins a new game. A life loss alone does not."""
    pressed: Int64[np.ndarray, " envs"] | None = None
    """The actions that were really taken, where an environment has replaced some."""


class NewLife(NamedTuple):
    """What is pressed on Atari after a life loss, in the place of the agent's actions."""

    fire: bool = False
    """FIRE, for one decision."""
    noops: bool = False
    """Before it, no-ops for up to 29 frames, in whole decisions."""


NO_PRESS = NewLife()


@runtime_checkable
class VectorEnv(Protocol):
    """Several copies of one environment, stepped together."""

    spec: EnvSpec
    num_envs: int

    def reset(self) -> Observations:
        """Begin a new game in every environment and return its first observations."""

    def step(self, actions: Int64[np.ndarray, " envs"]) -> Step:
        """Take one action in each environment; where a game ends, a new one begins at once."""

    def state(self) -> dict[str, Any]:
        """What `load_state` needs to go on with the games under way: a tree of dicts and lists
        whose leaves are numbers, strings, booleans, None or NumPy arrays."""

    def load_state(self, state: dict[str, Any]) -> Observations | None:
        """Go on with the saved games exactly, and return the observations to act on next. None
        where that is not possible: call `reset` then, for new games."""

    def picture(self, obs: Observation) -> Picture:
        """An image, for people, of environment 0's newest observation: what `reset` returned or
        the `next_obs` of a step. Vectors are not drawn: the environment itself renders them, which
        it must have been made for (`make_env(..., render=True)`)."""
