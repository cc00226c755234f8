"""Environments by name: `minatar/breakout`, `atari/Pong`, `atari/Pong-sticky`, `atari-small/Pong`,
`probe/chain`, `gymnasium/CartPole-v1`, and `my_games.py:make_it` for a function of the user's own.

A suite is one record in `SUITES`.
"""

import difflib
import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from bnmodes import plugins
from bnmodes.envs.contract import NO_PRESS, EnvSpec, NewLife, VectorEnv
from bnmodes.errors import UsageError


class Making(NamedTuple):
    """What a vector of environments is made with."""

    num_envs: int
    seed: int
    threads: int = 1
    """Processor threads to step them with; what happens in them does not depend on it."""
    render: bool = False
    """Whether `picture` is going to be asked for."""
    new_life: NewLife = NO_PRESS
    """What is pressed after a life loss, on Atari."""


@dataclass(frozen=True)
class Suite:
    """A family of environments that are made in one way. Its module is imported when it is used."""

    make: Callable[[str, Making], VectorEnv]
    """From the part of the name after the suite's own."""
    list_games: Callable[[], Iterable[str]] = tuple
    """Those that `bnmodes env list` shows."""
    list_variants: Callable[[], Iterable[str]] = tuple
    """Further ones, which it does not."""
    find: Callable[[str], str] | None = None
    """Where the games are too many to list: the usual spelling of a game's name, or an error."""


def _probe() -> Any:
    return importlib.import_module("bnmodes.envs.probe")


def _minatar() -> Any:
    return importlib.import_module("bnmodes.envs.minatar.minatar_vector")


def _atari() -> Any:
    return importlib.import_module("bnmodes.envs.atari")


def _gymnasium() -> Any:
    return importlib.import_module("bnmodes.envs.gymnasium")


def _atari_suite(suite: str) -> Suite:
    return Suite(
        make=lambda game, of: _atari().AtariVector(
            game, of.num_envs, of.seed, of.threads, of.new_life, suite
        ),
        list_games=lambda: _atari().ROM_IDS,
        list_variants=lambda: [game + _atari().STICKY for game in _atari().ROM_IDS],
    )


ATARI_SUITES = ("atari", "atari-small")

SUITES = {
    "probe": Suite(
        make=lambda game, of: _probe().ProbeVector(game, of.num_envs, of.seed),
        list_games=lambda: _probe().PROBES,
    ),
    "minatar": Suite(
        make=lambda game, of: _minatar().MinAtarVector(game, of.num_envs, of.seed),
        list_games=lambda: _minatar().GAMES,
    ),
    **{suite: _atari_suite(suite) for suite in ATARI_SUITES},
    "gymnasium": Suite(
        make=lambda game, of: _gymnasium().make_registered(game, of.num_envs, of.seed, of.render),
        find=lambda game: _gymnasium().find_id(game),
    ),
    "file": Suite(
        make=lambda game, of: _gymnasium().make_from_file(game, of.num_envs, of.seed, of.render),
    ),
}


class Listing(NamedTuple):
    """A line of `bnmodes env list`."""

    name: str
    num_actions: int | None
    """Not told for Atari, where it takes an emulator to know."""
    observation: str


def make_env(
    name: str,
    num_envs: int,
    seed: int,
    *,
    threads: int = 1,
    render: bool = False,
    new_life: NewLife = NO_PRESS,
) -> VectorEnv:
    """Upper and lower case are the same in `name`; `spec.name` has the usual spelling."""
    if num_envs < 1:
        raise UsageError(f"{num_envs} environments cannot be made: ask for at least 1.")
    suite, game = _look_up(name)
    return SUITES[suite].make(game, Making(num_envs, seed, threads, render, new_life))


def env_spec(name: str) -> EnvSpec:
    """What an agent must know of an environment, without keeping one."""
    suite, game = _look_up(name)
    return make_env(name, 1, seed=0).spec if suite == "file" else _spec_of(suite, game)


@cache
def _spec_of(suite: str, game: str) -> EnvSpec:
    return SUITES[suite].make(game, Making(num_envs=1, seed=0)).spec


def env_suite(name: str) -> str:
    """Its suite: probe, minatar, atari, atari-small, gymnasium, or file for FILE.py:NAME."""
    return _look_up(name)[0]


def tells_life_losses(name: str) -> bool:
    """Whether a life loss ends the learning episode: on Atari without sticky actions."""
    suite, game = _look_up(name)
    return suite in ATARI_SUITES and not game.endswith(_atari().STICKY)


def canonical_name(name: str) -> str:
    """The usual spelling; a user's own FILE.py:NAME is left as it is."""
    suite, game = _look_up(name)
    return game if suite == "file" else f"{suite}/{game}"


def list_envs() -> list[Listing]:
    atari = _atari()
    listings = []
    for suite, each in SUITES.items():
        for game in each.list_games():
            spec = None if suite in ATARI_SUITES else _spec_of(suite, game)
            pixels = atari.SCREEN_PIXELS.get(suite)
            shape = spec.obs_shape if spec else (atari.STACK, pixels, pixels)
            actions = spec.num_actions if spec else None
            listings.append(Listing(f"{suite}/{game}", actions, "×".join(map(str, shape))))
    return [
        *listings,
        Listing("gymnasium/ID", None, "of any Gymnasium environment with discrete actions"),
        Listing("FILE.py:NAME", None, "of the environment that your own function returns"),
    ]


@cache
def _known() -> dict[str, tuple[str, str]]:
    """Suite and game by lower-case name, where the games are listed."""
    return {
        f"{name}/{game}".lower(): (name, game)
        for name, suite in SUITES.items()
        for game in (*suite.list_games(), *suite.list_variants())
    }


@cache
def _look_up(name: str) -> tuple[str, str]:
    """The suite and the game in its usual spelling."""
    if plugins.is_reference(name):
        return "file", name
    known = _known()
    if name.lower() in known:
        return known[name.lower()]
    suite, _, game = name.partition("/")
    if suite.lower() in SUITES and (find := SUITES[suite.lower()].find):
        return suite.lower(), find(game)
    near = ["/".join(known[key]) for key in difflib.get_close_matches(name.lower(), known, 3, 0.5)]
    hint = f" (the nearest are {', '.join(near)})" if near else ""
    written = "" if "/" in name else "; Gymnasium's games are written gymnasium/NAME"
    raise UsageError(
        f"there is no environment {name!r}{hint}: `bnmodes env list` shows all{written}."
    )
