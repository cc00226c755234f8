"""Any Gymnasium environment with discrete actions, behind the vector contract.

Its observations are a Box: a vector of numbers, which becomes float32, or a uint8 picture of any
size, which is turned to channels first. `gymnasium/CartPole-v1` names an environment that is
registered with Gymnasium; `my_games.py:make_it` names a function of the user's own that takes no
arguments and returns an environment.
"""

import difflib
import inspect
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from jaxtyping import Bool, Int64

from bnmodes import plugins
from bnmodes.envs.contract import EnvSpec, Observation, Observations, Picture, Step
from bnmodes.envs.resumable import ResumableVector
from bnmodes.errors import UsageError
from bnmodes.streams import numpy_stream

MAX_DECISIONS = 27_000
"""Longer games are truncated, so that an evaluation ends even where the environment never does."""

PICTURE_PIXELS = 200
"""Small pictures are enlarged to about this side for people."""

MakeEnv = Callable[[bool], gymnasium.Env]
"""Makes one environment; whether it is going to be rendered."""


class GymnasiumVector(ResumableVector):
    """Independent environments, stepped one after the other; every game has its own seed."""

    def __init__(
        self, name: str, make: MakeEnv, num_envs: int, seed: int, render: bool = False
    ) -> None:
        self.num_envs = num_envs
        self._envs = [make(render and index == 0) for index in range(num_envs)]
        weakref.finalize(self, _close, self._envs)
        first = self._envs[0]
        self._first_action = int(_discrete_actions(name, first).start)
        self._read = ObservationReader(name, first.observation_space)
        self.spec = EnvSpec(
            name=name,
            num_actions=int(_discrete_actions(name, first).n),
            frame_shape=self._read.shape,
            stack=1,
            pixel_scale=self._read.pixel_scale,
            frames_per_decision=1,
            dtype=self._read.dtype,
        )
        self._renders = render and not self.spec.is_picture and first.render_mode == "rgb_array"
        self._rendered: Picture | None = None  # environment 0, before a new game began
        self._newest = np.zeros((num_envs, *self.spec.obs_shape), self.spec.dtype)
        self._decisions = np.zeros(num_envs, np.int64)  # of the games under way
        self._seed_with(numpy_stream(seed, "gymnasium"))

    def reset(self) -> Observations:
        self._rendered = None
        return super().reset()

    def _begin(
        self, chosen: Bool[np.ndarray, " envs"], seeds: Int64[np.ndarray, " chosen"]
    ) -> Observations:
        obs = self._newest.copy()
        for index, seed in zip(np.flatnonzero(chosen), seeds.tolist(), strict=True):
            obs[index] = self._read(self._envs[index].reset(seed=seed)[0])
        self._decisions[chosen] = 0
        self._newest = obs
        if self._renders and self._rendered is None:  # else it shows how a game ended
            self._rendered = self._render()
        return obs

    def _play(
        self, actions: Int64[np.ndarray, " envs"], running: Bool[np.ndarray, " envs"]
    ) -> Step:
        next_obs = self._newest.copy()
        reward = np.zeros(self.num_envs, np.float32)
        terminated, truncated = np.zeros((2, self.num_envs), np.bool_)
        for index in np.flatnonzero(running).tolist():
            outcome = self._envs[index].step(int(actions[index]) + self._first_action)
            if len(outcome) != 5:
                raise UsageError(
                    f"a step of {self.spec.name} gives {len(outcome)} things, but Gymnasium's "
                    "contract has 5: observation, reward, terminated, truncated, info."
                )
            observed, reward[index], terminated[index], truncated[index], _ = outcome
            next_obs[index] = self._read(observed)
        self._decisions += 1
        self._newest = next_obs
        if self._renders:
            self._rendered = self._render()
        game_over = terminated | truncated | (self._decisions >= MAX_DECISIONS)
        return Step(next_obs, next_obs, reward, terminated, game_over)

    def picture(self, obs: Observation) -> Picture:
        """A picture's newest channels: three as colours where there are so many, else one. Of a
        vector, what the environment rendered."""
        if self.spec.is_picture:
            return _enlarged(obs, self.spec.pixel_scale)
        if self._rendered is None:
            raise UsageError(
                f"{self.spec.name} cannot be watched: its observations are vectors, and it was not "
                "made with render_mode='rgb_array'."
            )
        return self._rendered

    def _render(self) -> Picture:
        try:
            picture = self._envs[0].render()
        except Exception as error:
            raise UsageError(f"{self.spec.name} cannot be watched: {_first_line(error)}") from error
        if not isinstance(picture, np.ndarray) or picture.ndim != 3 or picture.shape[2] != 3:
            raise UsageError(
                f"{self.spec.name} cannot be watched: its render() gives no picture of height × "
                "width × 3."
            )
        return picture.astype(np.uint8)


class ObservationReader:
    """Turns what an environment with this observation space shows into what agents take."""

    def __init__(self, name: str, space: gymnasium.Space) -> None:
        self.name = name
        if not isinstance(space, Box):
            raise UsageError(
                f"the observations of {name} are {type(space).__name__}, but must be a Box: wrap "
                "it in gymnasium.wrappers.FlattenObservation, in a function of your own that "
                "--env my_games.py:make_it names."
            )
        self._given_shape = space.shape
        self._channel_axis: int | None = None
        self.pixel_scale = 1.0
        self.dtype: Literal["uint8", "float32"] = "float32"
        if len(space.shape) <= 1:
            self.shape: tuple[int, ...] = (int(np.prod(space.shape)),)
            return
        if space.dtype not in (np.uint8, np.bool_) or len(space.shape) > 3:
            raise UsageError(
                f"the observations of {name} are {space.dtype} of shape {space.shape}: pictures "
                "must be uint8, height × width (× channels); anything else can become a vector by "
                "gymnasium.wrappers.FlattenObservation."
            )
        self.dtype = "uint8"
        self.pixel_scale = 1.0 / max(1, int(space.high.max()))
        self._channel_axis = _channel_axis(name, space.shape) if len(space.shape) == 3 else None
        self.shape = self(np.zeros(space.shape, space.dtype)).shape

    def __call__(self, given: Any) -> Observation:
        given = np.asarray(given)
        if given.shape != self._given_shape:
            raise UsageError(
                f"{self.name} shows an observation of shape {given.shape}, but its "
                f"observation_space says {self._given_shape}."
            )
        if self.dtype == "float32":
            return given.astype(np.float32).reshape(-1)
        if given.dtype not in (np.uint8, np.bool_):
            raise UsageError(
                f"{self.name} shows a picture of {given.dtype}, but its observation_space says "
                "uint8."
            )
        given = given.astype(np.uint8)
        return (
            given[None] if self._channel_axis is None else np.moveaxis(given, self._channel_axis, 0)
        )


def _channel_axis(name: str, shape: tuple[int, ...]) -> int:
    """The first or the last axis, whichever is the clearly smaller one."""
    first, middle, last = shape
    if _are_sides(middle, last, channels=first):
        return 0
    if _are_sides(first, middle, channels=last):
        return 2
    raise UsageError(
        f"the pictures of {name} have the shape {shape}, which may be height × width × channels or "
        "channels first: make it clear by a function of your own that pads or crops them "
        "(gymnasium.wrappers.TransformObservation)."
    )


def _are_sides(one: int, other: int, channels: int) -> bool:
    """Whether two axes look like height and width beside so many channels."""
    smaller = min(one, other)
    return channels < smaller and (one == other or 2 * channels <= smaller)


def _discrete_actions(name: str, env: gymnasium.Env) -> Discrete:
    space = env.action_space
    if isinstance(space, Discrete):
        return space
    kinds = {Box: "continuous", MultiDiscrete: "several at once", MultiBinary: "several at once"}
    kind = kinds.get(type(space), type(space).__name__)
    raise UsageError(
        f"the actions of {name} are {kind} ({space}), but agents here choose one of a few: it "
        "needs a gymnasium.spaces.Discrete."
    )


def find_id(given: str) -> str:
    """The registered id, whatever the case it is written in; others are refused."""
    if given in gymnasium.registry:
        return given
    same = [known for known in gymnasium.registry if known.lower() == given.lower()]
    if len(same) == 1:
        return same[0]
    if ":" in given:
        raise UsageError(
            f"gymnasium/{given} names a module to import: register its environment in a file of "
            "your own, and give a function that makes it, as --env my_games.py:make_it."
        )
    near = difflib.get_close_matches(given, gymnasium.registry, 3, 0.5)
    hint = f" (the nearest are {', '.join(f'gymnasium/{each}' for each in near)})" if near else ""
    raise UsageError(f"Gymnasium has no environment '{given}'{hint}.")


def make_registered(env_id: str, num_envs: int, seed: int, render: bool = False) -> GymnasiumVector:
    """Environments that are registered with Gymnasium."""
    name = f"gymnasium/{env_id}"

    def make(rendered: bool) -> gymnasium.Env:
        try:
            env = gymnasium.make(env_id, disable_env_checker=True)
            if rendered and "rgb_array" in env.metadata.get("render_modes", ()):
                env.close()
                env = gymnasium.make(env_id, disable_env_checker=True, render_mode="rgb_array")
        except Exception as error:
            raise UsageError(f"{name} cannot be made: {_first_line(error)}") from error
        return env

    return GymnasiumVector(name, make, num_envs, seed, render)


def make_from_file(
    reference: str, num_envs: int, seed: int, render: bool = False
) -> GymnasiumVector:
    """Environments that a function of the user's own makes: FILE.py:NAME."""
    function = plugins.find(reference, "environment")
    parameters = _parameters(reference, function)
    if function.__module__ != plugins.module_of(reference):
        raise UsageError(f"{reference} is not a function of that file: define it there.")

    def make(rendered: bool) -> gymnasium.Env:
        options = {"render_mode": "rgb_array"} if rendered and "render_mode" in parameters else {}
        try:
            env = function(**options)
        except Exception as error:
            raise UsageError(f"{reference} failed: {_first_line(error)}") from error
        if not isinstance(env, gymnasium.Env):
            raise UsageError(
                f"{reference} returns {type(env).__name__}, but must return a gymnasium.Env."
            )
        if "seed" not in inspect.signature(env.unwrapped.reset).parameters:
            raise UsageError(
                f"{reference} returns an environment whose reset takes no seed: give it "
                "Gymnasium's own reset(self, *, seed=None, options=None)."
            )
        return env

    return GymnasiumVector(reference, make, num_envs, seed, render)


def _parameters(reference: str, function: Any) -> set[str]:
    """Their names; all of them must have defaults."""
    if not callable(function):
        raise UsageError(
            f"{reference} is {type(function).__name__}, but must be a function that returns a "
            "gymnasium.Env."
        )
    parameters = inspect.signature(function).parameters
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [
        each.name
        for each in parameters.values()
        if each.default is inspect.Parameter.empty and each.kind not in optional
    ]
    if needed:
        raise UsageError(
            f"{reference} takes the arguments {', '.join(needed)}, but must be a function without "
            "arguments that returns a gymnasium.Env."
        )
    return set(parameters)


def _enlarged(obs: Observation, pixel_scale: float) -> Picture:
    channels, height, width = obs.shape
    shown = obs[-3:] if channels % 3 == 0 else obs[[-1, -1, -1]]
    picture = np.moveaxis(shown, 0, -1) * (255 * pixel_scale)  # [height, width, 3]
    times = max(1, PICTURE_PIXELS // max(height, width))
    return picture.round().astype(np.uint8).repeat(times, axis=0).repeat(times, axis=1)


def _first_line(error: Exception) -> str:
    """An error as a sentence."""
    text = str(error).strip().partition("\n")[0].rstrip(".")
    return f"{type(error).__name__}: {text}." if text else f"{type(error).__name__}."


def _close(envs: list[gymnasium.Env]) -> None:
    for env in envs:
        with suppress(Exception):  # the interpreter may be going down
            env.close()
