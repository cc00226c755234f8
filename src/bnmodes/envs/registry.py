"""Environments by name: `minatar/breakout`, `atari/Pong`, `atari/Pong-sticky`, `probe/chain`."""

import difflib
from functools import cache
from typing import NamedTuple

import torch

from bnmodes.envs import atari, probe
from bnmodes.envs.atari import AtariVector
from bnmodes.envs.contract import VectorEnv
from bnmodes.envs.minatar import vector as minatar
from bnmodes.envs.minatar.vector import MinAtarVector
from bnmodes.envs.probe import ProbeVector
from bnmodes.errors import UsageError

FAMILIES = {
    "probe": tuple(probe.PROBES),
    "minatar": minatar.GAMES,
    "atari": tuple(atari.ROM_IDS),
}


class Listing(NamedTuple):
    name: str
    num_actions: int | None
    """Not told for Atari, where it takes an emulator to know."""
    obs_shape: tuple[int, int, int]


def make_env(name: str, num_envs: int, seed: int) -> VectorEnv:
    """Upper and lower case are the same in `name`; `spec.name` has the usual spelling."""
    if num_envs < 1:
        raise UsageError(f"{num_envs} environments cannot be made: ask for at least 1.")
    family, game = _look_up(name)
    if family == "atari":
        return AtariVector(game, num_envs, seed, threads=torch.get_num_threads())
    if family == "minatar":
        return MinAtarVector(game, num_envs, seed)
    return ProbeVector(game, num_envs, seed)


def env_family(name: str) -> str:
    return _look_up(name)[0]


def canonical_name(name: str) -> str:
    return "/".join(_look_up(name))


def list_envs() -> list[Listing]:
    atari_shape = (atari.STACK * atari.FRAME_SHAPE[0], *atari.FRAME_SHAPE[1:])
    listings = []
    for family, games in FAMILIES.items():
        for game in games:
            name = f"{family}/{game}"
            if family == "atari":
                listings.append(Listing(name, None, atari_shape))
            else:
                spec = make_env(name, num_envs=1, seed=0).spec
                listings.append(Listing(name, spec.num_actions, spec.obs_shape))
    return listings


@cache
def _look_up(name: str) -> tuple[str, str]:
    known = {
        f"{family}/{game}".lower(): (family, game)
        for family, games in FAMILIES.items()
        for game in (*games, *(game + atari.STICKY for game in games if family == "atari"))
    }
    if name.lower() in known:
        return known[name.lower()]
    near = ["/".join(known[key]) for key in difflib.get_close_matches(name.lower(), known, 3, 0.5)]
    hint = f" (the nearest are {', '.join(near)})" if near else ""
    raise UsageError(f"there is no environment {name!r}{hint}: `bnmodes env list` shows all.")
