"""The five MinAtar games, as the `minatar` package plays them, behind the vector contract."""

from typing import Any

import numpy as np
from jaxtyping import Int64, UInt8

from bnmodes.envs.contract import EnvSpec, Observations, Picture, Step
from bnmodes.envs.minatar.package_games import PackageGames
from bnmodes.envs.minatar.vectorised_space_invaders import SpaceInvaders
from bnmodes.streams import numpy_stream

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")

STICKY_PROBABILITY = 0.1

MAX_DECISIONS = 10_000
"""Longer games are truncated: in Seaquest a player can idle for ever."""

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
    """Independent environments, with the package's default sticky actions and difficulty ramp."""

    def __init__(self, game: str, num_envs: int, seed: int) -> None:
        self.num_envs = num_envs
        # Sticky actions and a game draw from one generator, as in the package.
        self._generators = [np.random.RandomState(each) for each in game_seeds(seed, num_envs)]
        self._envs = (
            SpaceInvaders(num_envs)
            if game == "space_invaders"
            else PackageGames(game, self._generators)
        )
        self._env_indices = np.arange(num_envs)
        self._action_ids = self._envs.action_ids
        self._last_actions = [0] * num_envs  # ids, kept over resets
        self._decisions = np.zeros(num_envs, dtype=np.int64)  # of the episode under way
        self.spec = EnvSpec(
            name=f"minatar/{game}",
            num_actions=len(self._action_ids),
            frame_shape=(self._envs.num_planes, 10, 10),
            stack=1,
            pixel_scale=1.0,
            frames_per_decision=1,
        )

    def reset(self) -> Observations:
        self._envs.reset(self._env_indices)
        self._decisions[:] = 0
        return self._envs.planes(self._env_indices)

    def step(self, actions: Int64[np.ndarray, " envs"]) -> Step:
        self._last_actions = [
            last if generator.random_sample() < STICKY_PROBABILITY else self._action_ids[action]
            for last, generator, action in zip(
                self._last_actions, self._generators, actions.tolist(), strict=True
            )
        ]
        reward, terminated = self._envs.act(self._last_actions)
        next_obs = self._envs.planes(self._env_indices)
        self._decisions += 1
        game_over = terminated | (self._decisions >= MAX_DECISIONS)

        obs = next_obs
        if game_over.any():
            obs = next_obs.copy()
            ended = np.flatnonzero(game_over)
            self._envs.reset(ended)
            obs[ended] = self._envs.planes(ended)
            self._decisions[ended] = 0
        return Step(obs, next_obs, reward, terminated, game_over)

    def state(self) -> dict[str, Any]:
        envs = zip(self._last_actions, self._generators, self._envs.attributes(), strict=True)
        return {
            "decisions": self._decisions.copy(),
            "envs": [
                {
                    "last_action": last_action,
                    "random": generator.get_state(legacy=False),
                    "attributes": attributes,
                }
                for last_action, generator, attributes in envs
            ],
        }

    def load_state(self, state: dict[str, Any]) -> Observations:
        self._decisions[:] = state["decisions"]
        self._last_actions = [saved["last_action"] for saved in state["envs"]]
        for generator, saved in zip(self._generators, state["envs"], strict=True):
            generator.set_state(saved["random"])
        self._envs.load_attributes([saved["attributes"] for saved in state["envs"]])
        return self._envs.planes(self._env_indices)

    def picture(self, obs: UInt8[np.ndarray, "channels 10 10"]) -> Picture:
        picture = np.full((10, 10, 3), BACKGROUND, dtype=np.uint8)
        # The first planes, the player's own, are painted last: on top.
        for plane, colour in reversed(list(zip(obs, PLANE_COLOURS, strict=False))):
            picture[plane == 1] = colour
        return picture.repeat(CELL_PIXELS, axis=0).repeat(CELL_PIXELS, axis=1)


def game_seeds(seed: int, num_envs: int) -> list[int]:
    return numpy_stream(seed, "minatar").integers(2**32, size=num_envs).tolist()
