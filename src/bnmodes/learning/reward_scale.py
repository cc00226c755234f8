"""What raw rewards are divided by, so that one learning rate fits every game."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bnmodes.envs.contract import Step
from bnmodes.replay.ring import Replay


def mean_absolute_reward(replay: Replay) -> float:
    """r̄ over the replay; 1 before any reward was seen."""
    return float(np.abs(replay.reward[: replay.transitions_added]).mean()) or 1.0


@dataclass
class ReturnScale:
    """The running standard deviation of the discounted return, G ← r + γG in each game."""

    gamma: float
    num_envs: int
    count: int = 0
    mean: float = 0.0
    squares: float = 0.0
    """Sum of squared distances from the mean."""

    def __post_init__(self):
        self.returns = np.zeros(self.num_envs)

    def observe(self, step: Step) -> None:
        self.returns = step.reward + self.gamma * self.returns
        for value in self.returns.tolist():
            self.count += 1
            before = value - self.mean
            self.mean += before / self.count
            self.squares += before * (value - self.mean)
        self.returns[step.game_over] = 0.0

    @property
    def deviation(self) -> float:
        """1 before two different returns were seen."""
        return math.sqrt(self.squares / max(1, self.count)) or 1.0

    def state(self) -> dict[str, Any]:
        numbers = {name: getattr(self, name) for name in ("count", "mean", "squares")}
        return numbers | {"returns": self.returns}

    def load_state(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
