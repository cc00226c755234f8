"""A game of your own: `bnmodes train c51 --env examples/own_game.py:make_it --arm bn-batch`.

Any Gymnasium environment with discrete actions will do; this one shows a small picture.
"""

import gymnasium
import numpy as np

ROWS, COLUMNS = 12, 8


class Catch(gymnasium.Env):
    """A ball falls; the paddle in the last row moves left, stays or moves right. Reward 1 if the
    ball ends within one column of it."""

    observation_space = gymnasium.spaces.Box(0, 255, (ROWS, COLUMNS, 1), np.uint8)
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.row, self.column = 0, int(self.np_random.integers(COLUMNS))
        self.paddle = COLUMNS // 2
        return self.picture(), {}

    def step(self, action):
        self.paddle = min(COLUMNS - 1, max(0, self.paddle + int(action) - 1))
        self.row += 1
        terminated = self.row == ROWS - 1
        caught = terminated and abs(self.paddle - self.column) <= 1
        return self.picture(), float(caught), terminated, False, {}

    def picture(self):
        picture = np.zeros((ROWS, COLUMNS, 1), np.uint8)
        picture[self.row, self.column] = 255
        picture[ROWS - 1, self.paddle] = 255
        return picture


def make_it() -> gymnasium.Env:
    return Catch()
