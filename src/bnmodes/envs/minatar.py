"""The five MinAtar games, as the `minatar` package plays them, behind the vector contract."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Int64, UInt8

from bnmodes.envs.base import EnvSpec, Observations, Picture, Step
from bnmodes.streams import numpy_stream

if TYPE_CHECKING:
    from minatar import Environment

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")

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
        from minatar import Environment  # here, because its plotting libraries take a second

        self.num_envs = num_envs
        self._games = [Environment(game) for _ in range(num_envs)]
        self._decisions = np.zeros(num_envs, dtype=np.int64)  # of the episode under way
        self._actions = self._games[0].minimal_action_set()
        self.spec = EnvSpec(
            name=f"minatar/{game}",
            num_actions=len(self._actions),
            frame_shape=(self._games[0].n_channels, 10, 10),
            stack=1,
            pixel_scale=1.0,
            frames_per_decision=1,
            exact_resume=True,
        )
        # The games as built were dealt by unseeded generators: `reset` deals the first true ones.
        for env, game_seed in zip(self._games, game_seeds(seed, num_envs), strict=True):
            env.seed(game_seed)

    def reset(self) -> Observations:
        for env in self._games:
            env.reset()
        self._decisions[:] = 0
        return self._observe()

    def step(self, actions: Int64[np.ndarray, " envs"]) -> Step:
        """Where no game ended, `successor` and `obs` are one array."""
        successor = np.empty((self.num_envs, *self.spec.obs_shape), dtype=np.uint8)
        reward = np.empty(self.num_envs, dtype=np.float32)
        terminated = np.empty(self.num_envs, dtype=np.bool_)
        for row, (env, action) in enumerate(zip(self._games, actions.tolist(), strict=True)):
            reward[row], terminated[row] = env.act(self._actions[action])
            successor[row] = _planes(env)
        self._decisions += 1
        game_over = terminated | (self._decisions >= MAX_DECISIONS)

        obs = successor
        if game_over.any():
            obs = successor.copy()
            for row in np.flatnonzero(game_over):
                self._games[row].reset()
                obs[row] = _planes(self._games[row])
            self._decisions[game_over] = 0
        return Step(obs, successor, reward, terminated, game_over)

    def state(self) -> dict[str, Any]:
        return {
            "decisions": self._decisions.copy(),
            "games": [
                {
                    "last_action": env.last_action,
                    "random": env.random.get_state(legacy=False),
                    "attributes": {
                        name: _plain(value)
                        for name, value in vars(env.env).items()
                        if name not in NOT_STATE
                    },
                }
                for env in self._games
            ],
        }

    def load_state(self, state: dict[str, Any]) -> Observations:
        self._decisions[:] = state["decisions"]
        for env, saved in zip(self._games, state["games"], strict=True):
            env.last_action = saved["last_action"]
            # In place: the wrapper's sticky actions and its game draw from this one generator.
            env.random.set_state(saved["random"])
            for name, value in saved["attributes"].items():
                setattr(env.env, name, _plain(value))
        return self._observe()

    def picture(self, obs: UInt8[np.ndarray, "channels 10 10"]) -> Picture:
        picture = np.full((10, 10, 3), BACKGROUND, dtype=np.uint8)
        # The first planes, the player's own, are painted last: on top.
        for plane, colour in reversed(list(zip(obs, PLANE_COLOURS, strict=False))):
            picture[plane == 1] = colour
        return picture.repeat(CELL_PIXELS, axis=0).repeat(CELL_PIXELS, axis=1)

    def _observe(self) -> Observations:
        return np.stack([_planes(env) for env in self._games]).astype(np.uint8)


def game_seeds(seed: int, num_envs: int) -> list[int]:
    return numpy_stream(seed, "minatar").integers(2**32, size=num_envs).tolist()


def _planes(env: "Environment") -> np.ndarray:
    return env.state().transpose(2, 0, 1)  # [10, 10, channels] -> [channels, 10, 10]


def _plain(value: Any) -> Any:
    """A copy that shares nothing with the game and holds Python numbers, lists and arrays."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return value.copy()
    return value.item() if isinstance(value, np.generic) else value
