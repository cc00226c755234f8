import subprocess
import sys

import numpy as np
import pytest
from minatar import Environment

from bnmodes.envs.minatar import minatar_vector as minatar
from bnmodes.envs.minatar.minatar_vector import GAMES, MinAtarVector, game_seeds


def bare_planes(env: Environment) -> np.ndarray:
    return np.moveaxis(env.state(), -1, 0)


@pytest.mark.parametrize("game", GAMES)
def test_plays_the_package_step_by_step(game: str) -> None:
    num_envs = 2
    vector = MinAtarVector(game, num_envs, seed=3)
    bare = [Environment(game) for _ in range(num_envs)]
    for env, seed in zip(bare, game_seeds(3, num_envs), strict=True):
        env.seed(seed)
        env.reset()
    np.testing.assert_array_equal(vector.reset(), [bare_planes(env) for env in bare])
    action_ids = bare[0].minimal_action_set()
    assert vector.spec.num_actions == len(action_ids)

    rng = np.random.default_rng(0)
    games_over = 0
    for _ in range(2_600):  # Freeway's games last 2,500
        actions = rng.integers(len(action_ids), size=num_envs)
        step = vector.step(actions)
        for row, env in enumerate(bare):
            reward, terminal = env.act(action_ids[actions[row]])
            assert step.reward[row] == reward
            assert step.terminated[row] == step.game_over[row] == terminal
            np.testing.assert_array_equal(step.next_obs[row], bare_planes(env))
            if terminal:
                env.reset()
                games_over += 1
            np.testing.assert_array_equal(step.obs[row], bare_planes(env))
    assert games_over >= num_envs


def test_games_of_a_vector_differ_and_follow_the_seed() -> None:
    def pictures(seed: int) -> np.ndarray:
        vector = MinAtarVector("asterix", 2, seed)
        vector.reset()
        return np.array([vector.step(np.array([0, 0])).next_obs for _ in range(60)])

    first = pictures(0)
    assert (first == pictures(0)).all()
    assert (first != pictures(1)).any()
    assert (first[:, 0] != first[:, 1]).any()


def test_a_loaded_state_holds_the_action_that_may_stick() -> None:
    vector, resumed = (MinAtarVector("breakout", 8, seed) for seed in (0, 1))
    vector.reset()
    resumed.reset()
    right, left = np.full(8, 2), np.full(8, 1)
    for move in [right, left] * 15:  # a tenth of the actions stick
        vector.step(move)
        resumed.step(right + left - move)
        resumed.load_state(vector.state())
        np.testing.assert_array_equal(
            resumed.step(np.zeros(8, np.int64)).next_obs,
            vector.step(np.zeros(8, np.int64)).next_obs,
        )


def test_long_games_are_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minatar, "MAX_DECISIONS", 7)
    vector = MinAtarVector("freeway", 2, seed=0)
    first = vector.reset()
    steps = [vector.step(np.array([1, 1])) for _ in range(21)]
    over = np.array([step.game_over for step in steps])
    assert np.flatnonzero(over.all(axis=1)).tolist() == [6, 13, 20]
    assert over.sum() == 2 * 3
    assert not any(step.terminated.any() for step in steps)
    assert (steps[6].next_obs != steps[6].obs).any()
    chicken = 0
    np.testing.assert_array_equal(steps[6].obs[:, chicken], first[:, chicken])


def test_what_a_step_returned_stays_as_it_was() -> None:
    vector = MinAtarVector("breakout", 1, seed=0)
    vector.reset()
    step = vector.step(np.array([1]))
    kept = step.obs.copy()
    vector.step(np.array([2]))
    np.testing.assert_array_equal(step.obs, kept)


def test_a_picture_paints_the_paddle() -> None:
    vector = MinAtarVector("breakout", 1, seed=0)
    picture = vector.picture(vector.reset()[0])
    assert picture.shape == (200, 200, 3)
    assert tuple(picture[190, 90]) == minatar.PLANE_COLOURS[0]
    assert tuple(picture[190, 10]) == minatar.BACKGROUND


def test_every_plane_has_a_colour() -> None:
    assert max(MinAtarVector(game, 1, 0).spec.frame_shape[0] for game in GAMES) == len(
        minatar.PLANE_COLOURS
    )


def test_games_are_made_without_the_packages_plotting_libraries():
    code = (
        "import sys; from bnmodes.envs.registry import make_env; "
        "make_env('minatar/breakout', 1, seed=0); "
        "assert not {'minatar', 'seaborn', 'scipy'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
