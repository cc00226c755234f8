"""MinAtar's Space Invaders, many environments at once: arrays with a row per environment.

The rules are those of the `minatar` package, the oddities too, so that games are equal cell by
cell. Nothing here is random: only sticky actions, which are the caller's, draw numbers.
"""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int64, UInt8

CANNON, ALIENS, LEFTWARDS, RIGHTWARDS, SHOTS, BOMBS = range(6)
COLUMNS = np.arange(10)
CELLS = np.arange(100)
BOTTOM = 9

FIRE = 5
MOVES = np.array([0, -1, 0, 1, 0, 0])  # columns, by the package's action id
MOVED = np.clip(COLUMNS[:, None] + MOVES, 0, 9)  # [columns, actions]

SHOT_COOL_DOWN = 5
BOMB_INTERVAL = 10
FASTEST_MARCH = 6

MAPS = {"alien_map": ALIENS, "f_bullet_map": SHOTS, "e_bullet_map": BOMBS}
NUMBERS = {  # each with its value at the start of a game
    "pos": 5,
    "alien_dir": -1,
    "enemy_move_interval": 12,
    "alien_move_timer": 12,
    "alien_shot_timer": BOMB_INTERVAL,
    "shot_timer": 0,
}
"""The package's names: a saved game has them."""

WAVE = np.zeros((10, 10), dtype=np.bool_)
WAVE[:4, 2:8] = True
FIRST_PLANES = np.zeros((6, 10, 10), dtype=np.bool_)
FIRST_PLANES[CANNON, BOTTOM, NUMBERS["pos"]] = True
FIRST_PLANES[[ALIENS, LEFTWARDS]] = WAVE
FIRST_NUMBERS = np.array(list(NUMBERS.values()))


class SpaceInvaders:
    action_ids = (0, 1, 3, FIRE)
    num_planes = 6

    def __init__(self, num_envs: int) -> None:
        self._rows = np.arange(num_envs)
        self._planes = np.tile(FIRST_PLANES, (num_envs, 1, 1, 1))
        self._aliens, self._shots, self._bombs = (self._planes[:, at] for at in MAPS.values())
        self._numbers = np.tile(FIRST_NUMBERS[:, None], num_envs)
        self._cannon, self._direction, self._march_interval = self._numbers[:3]
        self._timers = self._numbers[3:]
        self._march_timer, self._bomb_timer, self._shot_timer = self._timers

    def reset(self, rows: Int64[np.ndarray, " chosen"]) -> None:
        self._planes[rows] = FIRST_PLANES
        self._numbers[:, rows] = FIRST_NUMBERS[:, None]

    def act(
        self, action_ids: list[int]
    ) -> tuple[Float32[np.ndarray, " envs"], Bool[np.ndarray, " envs"]]:
        """Returns the rewards, and which games were lost."""
        actions = np.array(action_ids)
        firing = np.flatnonzero((actions == FIRE) & (self._shot_timer == 0))
        self._cannon[:] = MOVED[self._cannon, actions]
        self._shots[:, :-1] = self._shots[:, 1:]
        self._shots[firing, BOTTOM - 1, self._cannon[firing]] = True
        self._shot_timer[firing] = SHOT_COOL_DOWN
        self._bombs[:, 1:] = self._bombs[:, :-1]
        self._bombs[:, 0] = False

        at_cannon = (self._rows, BOTTOM, self._cannon)
        lost = self._bombs[at_cannon] | self._aliens[at_cannon]
        marching = np.flatnonzero(self._march_timer == 0)
        if marching.size:
            lost[marching] |= self._march(marching)
        bombing = np.flatnonzero(self._bomb_timer == 0)
        if bombing.size:
            self._drop_bombs(bombing)

        reward = self._hit_aliens()
        np.maximum(self._timers - 1, 0, out=self._timers)
        self._paint()
        return reward, lost

    def planes(self, rows: Int64[np.ndarray, " chosen"]) -> UInt8[np.ndarray, "chosen 6 10 10"]:
        return self._planes[rows].view(np.uint8)

    def attributes(self) -> list[dict[str, Any]]:
        """What the next step depends on, for each environment."""
        return [
            {name: planes[at].copy() for name, at in MAPS.items()}
            | dict(zip(NUMBERS, numbers, strict=True))
            for planes, numbers in zip(self._planes, self._numbers.T.tolist(), strict=True)
        ]

    def load_attributes(self, saved: list[dict[str, Any]]) -> None:
        for name, at in MAPS.items():
            self._planes[:, at] = [env[name] for env in saved]
        self._numbers[:] = [[env[name] for env in saved] for name in NUMBERS]
        self._paint()

    def _march(self, rows: Int64[np.ndarray, " chosen"]) -> Bool[np.ndarray, " chosen"]:
        """Aliens at the edge that they face turn round and go down; whether that loses the game."""
        aliens = self._aliens[rows]
        direction = self._direction[rows]
        turning = np.where(direction[:, None] < 0, aliens[:, :, 0], aliens[:, :, 9]).any(axis=1)
        landed = turning & aliens[:, BOTTOM].any(axis=1)

        # Cells are counted row by row, so that 10 is one down; the bottom row comes in at the top.
        cells = aliens.reshape(-1, 100)  # [chosen, 10, 10] -> [chosen, 100]
        source = (CELLS - np.where(turning, 10, direction)[:, None]) % 100
        moved = cells[np.arange(len(rows))[:, None], source]
        self._aliens[rows] = moved.reshape(-1, 10, 10)  # [chosen, 100] -> [chosen, 10, 10]
        self._direction[rows] = np.where(turning, -direction, direction)
        self._march_timer[rows] = np.minimum(cells.sum(axis=1), self._march_interval[rows])
        return landed | self._aliens[rows, BOTTOM, self._cannon[rows]]

    def _drop_bombs(self, rows: Int64[np.ndarray, " chosen"]) -> None:
        """The lowest alien drops it in the column nearest to the cannon; of two, the left one."""
        distance = np.abs(COLUMNS - self._cannon[rows, None])
        column = np.where(self._aliens[rows].any(axis=1), distance, 10).argmin(axis=1)
        upwards = self._aliens[rows, :, column][:, ::-1]  # [chosen, 10]
        self._bombs[rows, BOTTOM - upwards.argmax(axis=1), column] = True
        self._bomb_timer[rows] = BOMB_INTERVAL

    def _hit_aliens(self) -> Float32[np.ndarray, " envs"]:
        """A point each; where none is left the next wave comes, and marches faster."""
        hits = self._aliens & self._shots
        at = np.unravel_index(np.flatnonzero(hits), hits.shape)
        rows = at[0]
        if rows.size:
            self._aliens[at] = self._shots[at] = False
            cleared = rows[~self._aliens[rows].any(axis=(1, 2))]
            self._aliens[cleared] = WAVE
            faster = self._march_interval[cleared] - 1
            self._march_interval[cleared] = np.maximum(faster, FASTEST_MARCH)
        return np.bincount(rows, minlength=len(self._rows)).astype(np.float32)

    def _paint(self) -> None:
        """The planes that follow from the others."""
        leftwards = self._direction[:, None, None] < 0
        np.equal(COLUMNS, self._cannon[:, None], out=self._planes[:, CANNON, BOTTOM])
        np.logical_and(self._aliens, leftwards, out=self._planes[:, LEFTWARDS])
        np.logical_and(self._aliens, ~leftwards, out=self._planes[:, RIGHTWARDS])
