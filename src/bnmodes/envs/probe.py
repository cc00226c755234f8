"""Tiny games whose values are known: each one fails a learner for one reason.

`bandit`: the reward is not predicted for each action. `terminal-reward`: the value does not look
at the observation. `chain`: the discounted bootstrap is wrong. `truncation`: a truncated episode
is taken for a finished one. For γ ≤ 0.95 all values lie within [-10, 10].

Each game shows at least two observations. Where all rows of a batch are equal, BatchNorm divides
rounding errors by √ε: what is then learnt through running statistics differs between processors.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int64, UInt8

from bnmodes.envs.contract import EnvSpec, Observations, Picture, Step
from bnmodes.streams import numpy_stream

END = -1
PLANES = 4
RENDER_SCALE = 20

# State s lights plane s; END, the last row and so also row -1, is dark.
OBSERVATIONS = np.zeros((PLANES + 1, PLANES, 10, 10), dtype=np.uint8)
OBSERVATIONS[np.arange(PLANES), np.arange(PLANES)] = 1


@dataclass(frozen=True)
class Probe:
    """A table with a row per state and a column per action."""

    next_state: tuple[tuple[int, ...], ...]
    reward: tuple[tuple[float, ...], ...]
    starts: tuple[int, ...] = (0,)
    """The states a game begins in, equally likely."""
    max_decisions: int | None = None
    """After so many decisions a game is truncated, which changes no value."""

    def true_values(
        self, gamma: float
    ) -> tuple[UInt8[np.ndarray, "states planes 10 10"], Float[np.ndarray, "states actions"]]:
        """Every observation of the game, and the optimal Q of each action there (γ < 1)."""
        next_state = np.array(self.next_state)
        values = np.zeros_like(self.reward)
        change = np.inf
        while change > 1e-12:
            bootstrap = np.where(next_state == END, 0.0, values.max(axis=1)[next_state])
            updated = self.reward + gamma * bootstrap
            change = np.abs(updated - values).max()
            values = updated
        return OBSERVATIONS[: len(values)], values


PROBES = {
    # Q = the reward, in both states.
    "bandit": Probe(
        next_state=((END, END, END), (END, END, END)),
        reward=((-1.0, 0.0, 1.0), (-1.0, 0.0, 1.0)),
        starts=(0, 1),
    ),
    # Action 1 moves on, action 0 goes back to the start: Q(s, 1) = γ^(3-s), Q(s, 0) = γ^4.
    "chain": Probe(
        next_state=((0, 1), (0, 2), (0, 3), (0, END)),
        reward=((0.0, 0.0), (0.0, 0.0), (0.0, 0.0), (0.0, 1.0)),
        max_decisions=100,
    ),
    # Q = 1 in state 0 and -1 in state 1, whatever the action.
    "terminal-reward": Probe(
        next_state=((END, END), (END, END)), reward=((1.0, 1.0), (-1.0, -1.0)), starts=(0, 1)
    ),
    # A ring of states that never ends: Q = 0.5 / (1 - γ) in all of them, whatever the action.
    "truncation": Probe(
        next_state=((1, 1), (2, 2), (3, 3), (0, 0)),
        reward=((0.5, 0.5),) * 4,
        starts=(0, 1, 2, 3),
        max_decisions=5,
    ),
}


class ProbeVector:
    def __init__(self, game: str, num_envs: int, seed: int) -> None:
        self.num_envs = num_envs
        self.probe = PROBES[game]
        self.spec = EnvSpec(
            name=f"probe/{game}",
            num_actions=len(self.probe.reward[0]),
            frame_shape=(PLANES, 10, 10),
            stack=1,
            pixel_scale=1.0,
            frames_per_decision=1,
        )
        self._next_state = np.array(self.probe.next_state)
        self._reward = np.array(self.probe.reward, dtype=np.float32)
        self._random = numpy_stream(seed, "probe")
        self._states = np.full(num_envs, END)
        self._decisions = np.zeros(num_envs, dtype=np.int64)  # of the episode under way

    def reset(self) -> Observations:
        self._states = self._random.choice(self.probe.starts, size=self.num_envs)
        self._decisions[:] = 0
        return OBSERVATIONS[self._states]

    def step(self, actions: Int64[np.ndarray, " envs"]) -> Step:
        reward = self._reward[self._states, actions]
        reached = self._next_state[self._states, actions]
        self._decisions += 1
        terminated = reached == END
        game_over = terminated.copy()
        if self.probe.max_decisions is not None:
            game_over |= self._decisions >= self.probe.max_decisions

        starts = self._random.choice(self.probe.starts, size=self.num_envs)
        self._states = np.where(game_over, starts, reached)
        self._decisions[game_over] = 0
        return Step(
            OBSERVATIONS[self._states], OBSERVATIONS[reached], reward, terminated, game_over
        )

    def state(self) -> dict[str, Any]:
        return {
            "states": self._states.copy(),
            "decisions": self._decisions.copy(),
            "random": self._random.bit_generator.state,
        }

    def load_state(self, state: dict[str, Any]) -> Observations:
        self._states = state["states"].copy()
        self._decisions[:] = state["decisions"]
        self._random.bit_generator.state = state["random"]
        return OBSERVATIONS[self._states]

    def picture(self, obs: UInt8[np.ndarray, "planes 10 10"]) -> Picture:
        """The planes side by side."""
        picture = np.hstack(list(obs)) * np.uint8(255)
        picture = picture.repeat(RENDER_SCALE, axis=0).repeat(RENDER_SCALE, axis=1)
        return np.stack([picture] * 3, axis=-1)
