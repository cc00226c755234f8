"""The five MinAtar games, as the `minatar` package plays them, behind the vector contract."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int64, UInt8

from bnmodes.envs.contract import EnvSpec, Observations, Picture, Step
from bnmodes.envs.minatar.space_invaders import SpaceInvaders
from bnmodes.streams import numpy_stream

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")

STICKY_PROBABILITY = 0.1

MAX_DECISIONS = 10_000
"""Longer games are truncated: in Seaquest a player can idle for ever."""

NOT_STATE = frozenset({"channels", "action_map", "random"})
"""Attributes of a game that never change, and its generator, which is captured apart."""

CELL_PIXELS = 20
BACKGROUND = (20, 22, 30)
PLANE_COLOURS = (  # Paul Tol's light scheme, safe for colour-blind readers, and white
    (0xEE, 0x88, 0x66),
    (0x77, 0xAA, 0xDD),
    (0xEE, 0xDD, 0x88),
    (0x44, 0xBB, 0x99),
    (0xFF, 0xAA, 0xBB),
    (0xBB, 0xCC, 0x33),
    (0x99, 0xDD, 0xFF),
    (0xAA, 0xAA, 0x00),
    (0xDD, 0xDD, 0xDD),
    (0xFF, 0xFF, 0xFF),
)


class MinAtarVector:
    """Independent games; sticky actions and difficulty ramping are the package's defaults."""

    def __init__(self, game: str, num_envs: int, seed: int) -> None:
        self.num_envs = num_envs
        # Sticky actions and a game draw from one generator, as in the package.
        self._generators = [np.random.RandomState(each) for each in game_seeds(seed, num_envs)]
        self._games = (
            SpaceInvaders(num_envs)
            if game == "space_invaders"
            else PackageGames(game, self._generators)
        )
        self._all = np.arange(num_envs)
        self._action_ids = self._games.action_ids
        self._last_actions = [0] * num_envs  # ids, kept over resets
        self._decisions = np.zeros(num_envs, dtype=np.int64)  # of the episode under way
        self.spec = EnvSpec(
            name=f"minatar/{game}",
            num_actions=len(self._action_ids),
            frame_shape=(self._games.num_planes, 10, 10),
            stack=1,
            pixel_scale=1.0,
            frames_per_decision=1,
            exact_resume=True,
        )

    def reset(self) -> Observations:
        self._games.reset(self._all)
        self._decisions[:] = 0
        return self._games.planes(self._all)

    def step(self, actions: Int64[np.ndarray, " envs"]) -> Step:
        """Where no game ended, `successor` and `obs` are one array."""
        self._last_actions = [
            last if generator.random_sample() < STICKY_PROBABILITY else self._action_ids[action]
            for last, generator, action in zip(
                self._last_actions, self._generators, actions.tolist(), strict=True
            )
        ]
        reward, terminated = self._games.act(self._last_actions)
        successor = self._games.planes(self._all)
        self._decisions += 1
        game_over = terminated | (self._decisions >= MAX_DECISIONS)

        obs = successor
        if game_over.any():
            obs = successor.copy()
            rows = np.flatnonzero(game_over)
            self._games.reset(rows)
            obs[rows] = self._games.planes(rows)
            self._decisions[rows] = 0
        return Step(obs, successor, reward, terminated, game_over)

    def state(self) -> dict[str, Any]:
        games = zip(self._last_actions, self._generators, self._games.attributes(), strict=True)
        return {
            "decisions": self._decisions.copy(),
            "games": [
                {
                    "last_action": last_action,
                    "random": generator.get_state(legacy=False),
                    "attributes": attributes,
                }
                for last_action, generator, attributes in games
            ],
        }

    def load_state(self, state: dict[str, Any]) -> Observations:
        self._decisions[:] = state["decisions"]
        self._last_actions = [saved["last_action"] for saved in state["games"]]
        for generator, saved in zip(self._generators, state["games"], strict=True):
            generator.set_state(saved["random"])
        self._games.load_attributes([saved["attributes"] for saved in state["games"]])
        return self._games.planes(self._all)

    def picture(self, obs: UInt8[np.ndarray, "channels 10 10"]) -> Picture:
        picture = np.full((10, 10, 3), BACKGROUND, dtype=np.uint8)
        # The first planes, the player's own, are painted last: on top.
        for plane, colour in reversed(list(zip(obs, PLANE_COLOURS, strict=False))):
            picture[plane == 1] = colour
        return picture.repeat(CELL_PIXELS, axis=0).repeat(CELL_PIXELS, axis=1)


class PackageGames:
    """Games that the package plays one by one."""

    def __init__(self, game: str, generators: list[np.random.RandomState]) -> None:
        from minatar import Environment  # here, because its plotting libraries take a second

        self._games = [Environment(game).env for _ in generators]
        # As built, they were dealt by generators of their own: `reset` deals the first true games.
        for env, generator in zip(self._games, generators, strict=True):
            env.random = generator
        self.action_ids = self._games[0].minimal_action_set()
        self.num_planes = self._games[0].state_shape()[-1]

    def reset(self, rows: Int64[np.ndarray, " games"]) -> None:
        for row in rows:
            self._games[row].reset()

    def act(
        self, actions: list[int]
    ) -> tuple[Float32[np.ndarray, " envs"], Bool[np.ndarray, " envs"]]:
        pairs = zip(self._games, actions, strict=True)
        reward, terminated = zip(*(env.act(action) for env, action in pairs), strict=True)
        return np.array(reward, dtype=np.float32), np.array(terminated, dtype=np.bool_)

    def planes(self, rows: Int64[np.ndarray, " games"]) -> UInt8[np.ndarray, "games planes 10 10"]:
        planes = np.empty((len(rows), self.num_planes, 10, 10), dtype=np.uint8)
        for at, row in enumerate(rows):
            planes[at] = self._games[row].state().transpose(2, 0, 1)
        return planes

    def attributes(self) -> list[dict[str, Any]]:
        return [
            {name: _plain(value) for name, value in vars(env).items() if name not in NOT_STATE}
            for env in self._games
        ]

    def load_attributes(self, games: list[dict[str, Any]]) -> None:
        for env, saved in zip(self._games, games, strict=True):
            for name, value in saved.items():
                setattr(env, name, _plain(value))


def game_seeds(seed: int, num_envs: int) -> list[int]:
    return numpy_stream(seed, "minatar").integers(2**32, size=num_envs).tolist()


def _plain(value: Any) -> Any:
    """A copy that shares nothing with the game and holds Python numbers, lists and arrays."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return value.copy()
    return value.item() if isinstance(value, np.generic) else value
