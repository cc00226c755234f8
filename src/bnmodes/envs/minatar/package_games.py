"""MinAtar games that the `minatar` package plays, one environment after the other."""

import importlib.util
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32, Int64, UInt8

NOT_STATE = frozenset({"channels", "action_map", "random"})
"""Attributes of a game that never change, and its generator, which is captured apart."""


class PackageGames:
    """Several environments of one game."""

    def __init__(self, game: str, generators: list[np.random.RandomState]) -> None:
        module = _module_of(game)
        self._envs = [module.Env(ramping=True) for _ in generators]
        # As built, they were dealt by generators of their own: `reset` deals the first true games.
        for env, generator in zip(self._envs, generators, strict=True):
            env.random = generator
        self.action_ids = self._envs[0].minimal_action_set()
        self.num_planes = self._envs[0].state_shape()[-1]

    def reset(self, env_indices: Int64[np.ndarray, " chosen"]) -> None:
        for index in env_indices:
            self._envs[index].reset()

    def act(
        self, actions: list[int]
    ) -> tuple[Float32[np.ndarray, " envs"], Bool[np.ndarray, " envs"]]:
        pairs = zip(self._envs, actions, strict=True)
        reward, terminated = zip(*(env.act(action) for env, action in pairs), strict=True)
        return np.array(reward, dtype=np.float32), np.array(terminated, dtype=np.bool_)

    def planes(
        self, env_indices: Int64[np.ndarray, " chosen"]
    ) -> UInt8[np.ndarray, "chosen planes 10 10"]:
        planes = np.empty((len(env_indices), self.num_planes, 10, 10), dtype=np.uint8)
        for at, index in enumerate(env_indices):
            planes[at] = self._envs[index].state().transpose(2, 0, 1)
        return planes

    def attributes(self) -> list[dict[str, Any]]:
        return [
            {name: _plain(value) for name, value in vars(env).items() if name not in NOT_STATE}
            for env in self._envs
        ]

    def load_attributes(self, saved: list[dict[str, Any]]) -> None:
        for env, attributes in zip(self._envs, saved, strict=True):
            for name, value in attributes.items():
                setattr(env, name, _plain(value))


@cache
def _module_of(game: str) -> ModuleType:
    """The package's file of a game by itself: the package imports plotting libraries for seconds,
    in every process that plays."""
    package = importlib.util.find_spec("minatar")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("the package minatar is not installed: pip install minatar.")
    file = Path(package.origin).parent / "environments" / f"{game}.py"
    module = ModuleType(f"minatar_{game}")
    SourceFileLoader(module.__name__, str(file)).exec_module(module)
    return module


def _plain(value: Any) -> Any:
    """A copy that shares nothing with the game and holds Python numbers, lists and arrays."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return value.copy()
    return value.item() if isinstance(value, np.generic) else value
