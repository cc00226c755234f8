"""Returns of the games that environments play while an agent trains.

The first `num_envs` environments are those that are learnt from. Rows beyond them are greedy test
environments, which act in one batch with the others.
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

_STATE = (
    "returns",
    "finished_returns",
    "finished_tests",
    "last_tests",
    "last_tests_sum",
    "last_tests_counted",
)


class GameReturns:
    """Sums rewards to the returns of games, and keeps finished ones until a row takes them."""

    def __init__(self, num_envs: int, env_rows: int):
        self.num_envs = num_envs
        self.returns = np.zeros(env_rows)
        """Of each game under way, so far."""
        self.finished_returns: list[float] = []
        self.finished_tests: list[float] = []
        self.last_tests = np.zeros(env_rows - num_envs)
        """Of each test environment the return of its last finished game; 0 before the first."""
        self.last_tests_sum, self.last_tests_counted = 0.0, 0

    @property
    def has_tests(self) -> bool:
        return self.last_tests.size > 0

    @property
    def last(self) -> float | None:
        """Of the game that ended last among those since the last row."""
        return self.finished_returns[-1] if self.finished_returns else None

    def add(self, reward: Float[np.ndarray, " rows"], game_over: Bool[np.ndarray, " rows"]) -> None:
        """One step of every environment."""
        self.returns += reward
        if game_over.any():
            training, tests = np.split(game_over, [self.num_envs])
            of_training, of_tests = np.split(self.returns, [self.num_envs])
            self.finished_returns += of_training[training].tolist()
            self.finished_tests += of_tests[tests].tolist()
            self.last_tests[tests] = of_tests[tests]
            self.returns[game_over] = 0
        if self.has_tests:
            self.last_tests_sum += float(self.last_tests.mean())
            self.last_tests_counted += 1

    def new_games(self) -> None:
        """The games under way are given up: others have begun in their place."""
        self.returns[:] = 0

    def take_training(self) -> dict[str, int | float]:
        """Number and mean return of the training games that ended since this was last asked."""
        finished, self.finished_returns = self.finished_returns, []
        return _summary(finished)

    def take_tests(self) -> dict[str, int | float]:
        """The same of test games; and the mean, over all steps since, of each environment's last
        return, which is what PQN's released code reports."""
        values = _summary(self.finished_tests)
        if self.last_tests_counted:  # not where one step passes several bins
            values["last_return"] = self.last_tests_sum / self.last_tests_counted
        self.finished_tests, self.last_tests_sum, self.last_tests_counted = [], 0.0, 0
        return values

    def state(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _STATE}

    def load_state(self, state: dict[str, Any]) -> None:
        for name in _STATE:
            setattr(self, name, state[name])


def _summary(returns: list[float]) -> dict[str, int | float]:
    """Number and mean; no mean where there is none."""
    mean = {"return": float(np.mean(returns))} if returns else {}
    return {"games": len(returns)} | mean
