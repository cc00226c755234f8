"""One contract for every vector of games: what a step gives, whatever makes it."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float32, Int64, UInt8

Observations = UInt8[np.ndarray, "envs channels height width"]
Picture = UInt8[np.ndarray, "height width 3"]


@dataclass(frozen=True)
class EnvSpec:
    """What an agent must know to be built for a game."""

    name: str
    num_actions: int
    frame_shape: tuple[int, int, int]
    """Channels, height, width of one frame."""
    stack: int
    """Frames in an observation, oldest first, joined along the channel axis."""
    pixel_scale: float
    """What the network multiplies the stored bytes by."""
    frames_per_decision: int
    exact_resume: bool
    """Whether `state` captures the games, so that a resumed run goes on in the same episode."""

    @property
    def obs_shape(self) -> tuple[int, int, int]:
        channels, height, width = self.frame_shape
        return (self.stack * channels, height, width)


@dataclass(frozen=True)
class Step:
    """One decision of each environment. Truncated is `game_over & ~terminated`."""

    obs: Observations
    """What to act on next: the successor, or the first observation of a new game."""
    successor: Observations
    """The true s' of the action taken, also where a game ended."""
    reward: Float32[np.ndarray, " envs"]
    """Raw, never clipped."""
    terminated: Bool[np.ndarray, " envs"]
    """The successor has no value: the game was lost or won, or a life was lost."""
    game_over: Bool[np.ndarray, " envs"]
    """`obs` begins a new game. A life loss alone does not."""


@runtime_checkable
class VectorEnv(Protocol):
    spec: EnvSpec
    num_envs: int

    def reset(self) -> Observations: ...

    def step(self, actions: Int64[np.ndarray, " envs"]) -> Step: ...

    def state(self) -> dict[str, Any]:
        """Everything the next step depends on (empty without `exact_resume`): a tree of dicts
        and lists whose leaves are numbers, strings, booleans, None or NumPy arrays."""

    def load_state(self, state: dict[str, Any]) -> Observations:
        """Go on from `state`, or begin new games where it is empty; what to act on next."""

    def picture(self, obs: UInt8[np.ndarray, "channels height width"]) -> Picture:
        """One observation, for people."""
