"""Gymnasium environments through the vector contract, beside single ones stepped by hand."""

import gymnasium
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bnmodes import plugins
from bnmodes.envs import gymnasium as ours
from bnmodes.envs.contract import Step, VectorEnv
from bnmodes.envs.registry import canonical_name, env_spec, env_suite, make_env
from bnmodes.errors import UsageError
from bnmodes.streams import numpy_stream
from helpers.own_games import SOURCE

CARTPOLE = "gymnasium/CartPole-v1"


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The user's file, imported as `games.py`."""
    monkeypatch.setattr(plugins, "_loaded", {})
    (tmp_path / "games.py").write_text(SOURCE)
    return plugins.load(tmp_path / "games.py").module


class ByHand:
    """The same environments without any vector: each game begins with the next seed."""

    def __init__(self, make, num_envs: int, seed: int, read, first_action: int = 0) -> None:
        self.envs = [make() for _ in range(num_envs)]
        self.seeds = numpy_stream(seed, "gymnasium")
        self.read, self.first_action = read, first_action

    def begin(self, count: int) -> list[int]:
        return self.seeds.integers(2**31, size=count).tolist()

    def reset(self) -> np.ndarray:
        seeds = self.begin(len(self.envs))
        pairs = zip(self.envs, seeds, strict=True)
        return np.stack([self.read(env.reset(seed=seed)[0]) for env, seed in pairs])

    def check(self, step: Step, actions: np.ndarray) -> None:
        outcomes = [
            env.step(int(action) + self.first_action)
            for env, action in zip(self.envs, actions, strict=True)
        ]
        next_obs = [self.read(outcome[0]) for outcome in outcomes]
        over = [outcome[2] or outcome[3] for outcome in outcomes]
        seeds = iter(self.begin(sum(over)))
        obs = [
            self.read(env.reset(seed=next(seeds))[0]) if ended else shown
            for env, ended, shown in zip(self.envs, over, next_obs, strict=True)
        ]
        np.testing.assert_array_equal(step.next_obs, np.stack(next_obs))
        np.testing.assert_array_equal(step.obs, np.stack(obs))
        assert step.reward.tolist() == [np.float32(outcome[1]) for outcome in outcomes]
        assert step.terminated.tolist() == [outcome[2] for outcome in outcomes]
        assert step.game_over.tolist() == over


def channels_first(picture: np.ndarray) -> np.ndarray:
    return np.moveaxis(picture, -1, 0)


def cases(module) -> dict:
    """By name: how to make one, how to read its observations, its first action."""
    return {
        CARTPOLE: (lambda: gymnasium.make("CartPole-v1"), np.asarray, 0),
        "games.py:channels_first": (module.channels_first, np.asarray, 5),
        "games.py:channels_last": (module.channels_last, channels_first, 5),
        "games.py:cut_short": (module.cut_short, channels_first, 5),
    }


def equal(a: Step, b: Step) -> bool:
    return all(np.array_equal(getattr(a, name), value) for name, value in vars(b).items())


@pytest.mark.parametrize(
    "name",
    [CARTPOLE, "games.py:channels_first", "games.py:channels_last", "games.py:cut_short"],
)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    num_envs=st.integers(1, 4),
    seed=st.integers(0, 2**31),
    before=st.integers(0, 60),
    after=st.integers(1, 40),
)
def test_plays_the_environments_one_by_one_and_resumes_exactly(
    own, name, num_envs, seed, before, after
):
    make, read, first_action = cases(own)[name]
    vector = make_env(name, num_envs, seed)
    by_hand = ByHand(make, num_envs, seed, read, first_action)
    obs = vector.reset()
    np.testing.assert_array_equal(obs, by_hand.reset())
    rng = np.random.default_rng(seed)

    def play(vector: VectorEnv, actions: np.ndarray) -> list[Step]:
        return [vector.step(row) for row in actions]

    actions = rng.integers(vector.spec.num_actions, size=(before + after, num_envs))
    for row, step in zip(actions, play(vector, actions[:before]), strict=False):
        by_hand.check(step, row)
        obs = step.obs
    state = vector.state()
    rest = play(vector, actions[before:])
    for row, step in zip(actions[before:], rest, strict=True):
        by_hand.check(step, row)

    resumed = make_env(name, num_envs, seed + 1)
    np.testing.assert_array_equal(resumed.load_state(state), obs)
    assert all(map(equal, play(resumed, actions[before:]), rest))


def test_a_truncated_game_is_over_but_not_terminated(own):
    vector = make_env("games.py:cut_short", 2, seed=0)
    vector.reset()
    steps = [vector.step(np.array([1, 1])) for _ in range(14)]
    assert [step.game_over.all() for step in steps] == [False] * 6 + [True] + [False] * 6 + [True]
    assert not any(step.terminated.any() for step in steps)
    ball, rows = 0, [7, 0]
    for row, picture in zip(rows, (steps[6].next_obs, steps[6].obs), strict=True):
        assert (picture[:, ball, row] == 255).any(axis=1).all()


def test_games_without_an_end_are_truncated(own, monkeypatch):
    monkeypatch.setattr(ours, "MAX_DECISIONS", 4)
    vector = make_env("games.py:channels_last", 1, seed=0)
    vector.reset()
    steps = [vector.step(np.array([1])) for _ in range(8)]
    assert [bool(step.game_over[0]) for step in steps] == [False, False, False, True] * 2
    assert not any(step.terminated.any() for step in steps)


@pytest.mark.parametrize("name", ["windy", "shortening"])
def test_games_that_the_seed_does_not_decide_cannot_go_on(own, name):
    vector = make_env(f"games.py:{name}", 3, seed=0)
    vector.reset()
    actions = np.zeros(3, np.int64)
    for _ in range(40):
        vector.step(actions)
    resumed = make_env(f"games.py:{name}", 3, seed=1)
    if name == "shortening":
        own.Shortening.length = 20
    assert resumed.load_state(vector.state()) is None
    assert len(resumed.reset()) == 3
    resumed.step(actions)


def test_a_log_longer_than_its_first_room_comes_back(own):
    own.Shortening.length = 10**6
    vector = make_env("games.py:shortening", 2, seed=0)
    vector.reset()
    for decision in range(1500):
        vector.step(np.array([decision % 2, 1]))
    state = vector.state()
    assert state["lengths"].tolist() == [1500, 1500]
    assert state["actions"].tolist() == [0, 1] * 750 + [1] * 1500
    assert state["actions"].itemsize == 1
    resumed = make_env("games.py:shortening", 2, seed=1)
    assert resumed.load_state(state) is not None
    resumed.step(np.array([1, 0]))
    assert resumed.state()["actions"].tolist() == [0, 1] * 750 + [1] + [1] * 1500 + [0]


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "pixel_scale"),
    [
        (CARTPOLE, (4,), "float32", 1.0),
        ("games.py:channels_last", (2, 12, 10), "uint8", 1 / 255),
        ("games.py:channels_first", (2, 12, 10), "uint8", 1 / 255),
        ("games.py:grey", (1, 9, 8), "uint8", 1 / 255),
        ("games.py:planes", (6, 10, 10), "uint8", 1.0),
        ("games.py:whole_numbers", (3,), "float32", 1.0),
    ],
)
def test_the_specification_tells_what_is_observed(own, name, shape, dtype, pixel_scale):
    spec = env_spec(name)
    assert (spec.frame_shape, spec.stack, spec.dtype) == (shape, 1, dtype)
    assert spec.pixel_scale == pixel_scale
    assert spec.suite == env_suite(name) == ("file" if ".py" in name else "gymnasium")
    assert spec.obs_bytes == np.prod(shape) * (4 if dtype == "float32" else 1)
    obs = make_env(name, 2, seed=0).reset()
    assert obs.shape == (2, *shape)
    assert obs.dtype == dtype


def test_names_are_found_in_any_case_and_a_users_own_stay():
    assert canonical_name("Gymnasium/cartpole-V1") == CARTPOLE
    assert canonical_name("games.py:make_it") == "games.py:make_it"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gymnasium/CartPole", "no environment 'CartPole'.*gymnasium/CartPole-v1"),
        ("gymnasium/my_package:Game-v0", "module to import.*my_games.py:make_it"),
        ("gymnasium/Pendulum-v1", "continuous.*Discrete"),
        ("gymnasium/CliffWalking-v1", "Discrete.*FlattenObservation"),
        ("gymnasium/Blackjack-v1", "Tuple.*FlattenObservation"),
        ("gymnasium/LunarLander-v3", "cannot be made: .*[Bb]ox2[dD]"),
        ("gymnasium/phys2d/CartPole-v1", "cannot be made: .*jax"),
        ("gymnasium/nothing/Pong-v5", "no environment 'nothing/Pong-v5'"),
        ("games.py:continuous", "continuous.*Discrete"),
        ("games.py:several", "several at once.*Discrete"),
        ("games.py:dictionary", "Dict.*FlattenObservation"),
        ("games.py:float_picture", "float32.*must be uint8.*FlattenObservation"),
        ("games.py:ambiguous", r"\(10, 10, 10\).*channels first"),
        ("games.py:wide", r"\(8, 80, 10\).*channels first"),
        ("games.py:with_arguments", "takes the arguments size, but"),
        ("games.py:nothing", "returns NoneType.*gymnasium.Env"),
        ("games.py:number", "is int, but must be a function"),
        ("games.py:broken", "games.py:broken failed: KeyError: 'no such level'"),
        ("games.py:without_seed", "takes no seed"),
        ("games.py:channels_lost", "did you mean 'channels_last'"),
        ("games.py", "games.py:NAME"),
        ("others.py:game", "--plugin"),
    ],
)
def test_what_no_agent_can_play_is_refused_in_one_sentence(own, name, words):
    with pytest.raises(UsageError, match=words) as refused:
        env_spec(name)
    assert "\n" not in str(refused.value)


def test_an_environment_that_breaks_its_word_is_named(own):
    with pytest.raises(UsageError, match=r"shape \(3,\).*says \(2,\)"):
        make_env("games.py:liar", 1, seed=0).reset()
    vector = make_env("games.py:old_step", 1, seed=0)
    vector.reset()
    with pytest.raises(UsageError, match=r"gives 4 things.*terminated, truncated"):
        vector.step(np.array([0]))


def test_atari_by_gymnasiums_name_plays_raw_pictures():
    spec = env_spec("gymnasium/ALE/Pong-v5")
    assert (spec.frame_shape, spec.num_actions) == ((3, 210, 160), 6)


def test_a_vector_game_shows_what_it_renders_its_end_too(own):
    vector = make_env("games.py:rendered", 2, seed=0, render=True)
    obs = vector.reset()
    shown = [vector.picture(obs[0])[0, 0, 0]]
    for _ in range(8):
        step = vector.step(np.array([0, 0]))
        shown.append(vector.picture(step.next_obs[0])[0, 0, 0])
    assert shown == [0, 1, 2, 3, 4, 5, 6, 1, 2]


@pytest.mark.parametrize("name", ["games.py:whole_numbers", "games.py:rendered"])
def test_a_vector_game_that_does_not_render_says_so(own, name):
    vector = make_env(name, 1, seed=0, render=name == "games.py:whole_numbers")
    obs = vector.reset()
    with pytest.raises(UsageError, match=r"cannot be watched.*rgb_array"):
        vector.picture(obs[0])


def test_a_missing_renderer_is_one_sentence(monkeypatch):
    def render(self):
        raise gymnasium.error.DependencyNotInstalled("pygame is not installed\nreally")

    vector = make_env(CARTPOLE, 1, seed=0, render=True)
    monkeypatch.setattr(type(vector._envs[0]), "render", render)
    with pytest.raises(UsageError, match=r"cannot be watched: .*pygame is not installed\.$"):
        vector.reset()


def test_pictures_show_their_newest_channels(own):
    for name, painted in (("games.py:grey", -1), ("games.py:channels_last", -1)):
        vector = make_env(name, 1, seed=0)
        obs = vector.reset()[0]
        picture = vector.picture(obs)
        times = len(picture) // obs.shape[1]
        assert times > 1
        np.testing.assert_array_equal(picture[::times, ::times, 0], obs[painted])
        np.testing.assert_array_equal(picture[..., 0], picture[..., 2])
    vector = make_env("games.py:planes", 1, seed=0)
    obs = vector.reset()[0]
    picture = vector.picture(obs)[::20, ::20]
    np.testing.assert_array_equal(picture, np.moveaxis(obs[-3:], 0, -1) * 255)


def test_environments_are_closed_with_their_vector(own):
    vector = make_env("games.py:channels_last", 2, seed=0)
    closed = []
    for env in vector._envs:
        env.close = lambda: closed.append(True)
    del vector
    assert closed == [True, True]
