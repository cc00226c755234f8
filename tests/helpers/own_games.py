"""A user's file with small Gymnasium environments, as text; a test writes it where it wants."""

SOURCE = '''
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.wrappers import TimeLimit


class Catch(gymnasium.Env):
    """A ball falls and drifts at random; the paddle moves by -1, 0 or 1 (actions 5, 6, 7)."""

    metadata = {"render_modes": []}
    height, width = 12, 10

    def __init__(self, channels_first, wind=None):
        self.channels_first, self.wind = channels_first, wind
        shape = (2, self.height, self.width) if channels_first else (self.height, self.width, 2)
        self.observation_space = Box(0, 255, shape, np.uint8)
        self.action_space = Discrete(3, start=5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.row, self.column = 0, int(self.np_random.integers(self.width))
        self.paddle = self.width // 2
        return self.observe(), {}

    def step(self, action):
        assert action in (5, 6, 7)
        self.row += 1
        wind = self.wind or self.np_random
        self.column = int(np.clip(self.column + wind.integers(-1, 2), 0, self.width - 1))
        self.paddle = int(np.clip(self.paddle + action - 6, 0, self.width - 1))
        landed = self.row == self.height - 1
        return self.observe(), float(landed and self.column == self.paddle), landed, False, {}

    def observe(self):
        picture = np.zeros((self.height, self.width, 2), np.uint8)
        picture[self.row, self.column, 0] = 255
        picture[-1, self.paddle, 1] = 200
        return np.moveaxis(picture, -1, 0) if self.channels_first else picture


def channels_first():
    return Catch(channels_first=True)


def channels_last():
    return Catch(channels_first=False)


def cut_short():
    return TimeLimit(Catch(channels_first=False), 7)


def windy():
    """Not decided by the seed."""
    return Catch(channels_first=False, wind=np.random.default_rng())


class Shown(gymnasium.Env):
    """Observes and does whatever a test wants; a game lasts 6 decisions."""

    def __init__(self, observation_space, action_space=None, render_mode=None):
        self.observation_space = observation_space
        self.action_space = action_space or Discrete(2)
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.decisions = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.decisions += 1
        return self.observation_space.sample(), 1.0, self.decisions == 6, False, {}

    def render(self):
        return np.full((4, 5, 3), self.decisions, np.uint8)


class Shortening(Shown):
    """Each game of the process is one decision shorter than the one before."""

    length = 50

    def reset(self, *, seed=None, options=None):
        Shortening.length -= 1
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.decisions += 1
        return np.zeros(1, np.float32), 0.0, self.decisions >= Shortening.length, False, {}


def shortening():
    return Shortening(Box(0, 1, (1,)))


def rendered(render_mode=None):
    return Shown(Box(-1, 1, (3,)), render_mode=render_mode)


def picture(shape, dtype=np.uint8, high=255):
    return Shown(Box(0, high, shape, dtype))


def grey():
    return picture((9, 8))


def planes():
    return picture((10, 10, 6), high=1)


def whole_numbers():
    return Shown(Box(-5, 5, (3,), np.int64))


def ambiguous():
    return picture((10, 10, 10))


def wide():
    return picture((8, 80, 10))


def float_picture():
    return Shown(Box(0, 1, (8, 8, 3), np.float32))


def dictionary():
    return Shown(Dict({"a": Box(0, 1, (2,))}))


def continuous():
    return Shown(Box(0, 1, (2,)), Box(-1, 1, (2,)))


def several():
    return Shown(Box(0, 1, (2,)), MultiDiscrete([2, 3]))


def with_arguments(size, colour="red"):
    return channels_last()


def nothing():
    pass


def broken():
    raise KeyError("no such level")


number = 3


class WithoutSeed(Shown):
    def reset(self):
        return self.observation_space.sample(), {}


def without_seed():
    return WithoutSeed(Box(0, 1, (2,)))


class Liar(Shown):
    def reset(self, *, seed=None, options=None):
        return np.zeros(3, np.float32), {}


def liar():
    return Liar(Box(0, 1, (2,)))


class OldStep(Shown):
    def step(self, action):
        return self.observation_space.sample(), 1.0, False, {}


def old_step():
    return OldStep(Box(0, 1, (2,)))
'''
