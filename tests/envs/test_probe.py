import numpy as np
import pytest

from bnmodes.envs.probe import PROBES, ProbeVector

GAMMA = 0.9


def learned_values(game: str, *, bootstrap_truncated: bool = True) -> np.ndarray:
    """Tabular Q-learning on what the vector shows; a state is the plane that is lit."""
    vector = ProbeVector(game, num_envs=8, seed=0)
    values = np.zeros((5, vector.spec.num_actions))
    rng = np.random.default_rng(0)
    obs = vector.reset()
    for _ in range(400):
        actions = rng.integers(vector.spec.num_actions, size=8)
        step = vector.step(actions)
        ended = step.terminated if bootstrap_truncated else step.game_over
        place, reached = (pictures[:, :, 0, 0].argmax(axis=1) for pictures in (obs, step.next_obs))
        bootstrap = np.where(ended, 0.0, values[reached].max(axis=1))
        values[place, actions] = step.reward + GAMMA * bootstrap
        obs = step.obs
    return values


@pytest.mark.parametrize("game", PROBES)
def test_true_values_are_what_tabular_learning_finds(game: str) -> None:
    _, values = PROBES[game].true_values(GAMMA)
    np.testing.assert_allclose(learned_values(game)[: len(values)], values, atol=1e-6)
    assert np.abs(values).max() <= 10


def test_true_values_have_their_closed_forms() -> None:
    def values(game: str) -> np.ndarray:
        return PROBES[game].true_values(GAMMA)[1]

    np.testing.assert_allclose(values("bandit"), [[-1, 0, 1], [-1, 0, 1]])
    np.testing.assert_allclose(values("chain")[:, 1], [GAMMA**3, GAMMA**2, GAMMA, 1])
    np.testing.assert_allclose(values("chain")[:, 0], GAMMA**4)
    np.testing.assert_allclose(values("terminal-reward"), [[1, 1], [-1, -1]])
    np.testing.assert_allclose(values("truncation"), 0.5 / (1 - GAMMA))


def test_observations_of_the_true_values_are_the_ones_shown() -> None:
    for game, probe in PROBES.items():
        vector = ProbeVector(game, num_envs=16, seed=0)
        shown = {picture.tobytes() for picture in vector.reset()}
        for _ in range(20):
            shown |= {picture.tobytes() for picture in vector.step(np.ones(16, np.int64)).obs}
        pictures, _ = probe.true_values(GAMMA)
        assert shown == {picture.tobytes() for picture in pictures}


def test_truncation_taken_for_an_end_is_caught() -> None:
    _, values = PROBES["truncation"].true_values(GAMMA)
    wrong = learned_values("truncation", bootstrap_truncated=False)[: len(values)]
    assert wrong.mean() < values.mean() - 1


@pytest.mark.parametrize("game", PROBES)
def test_a_batch_of_a_game_has_rows_that_vary(game: str) -> None:
    """BatchNorm has no variance to divide by where all rows are equal."""
    vector = ProbeVector(game, num_envs=32, seed=0)
    vector.reset()
    rows = np.concatenate([vector.step(np.ones(32, np.int64)).obs for _ in range(4)])
    assert len(np.unique(rows.reshape(len(rows), -1), axis=0)) > 1


def test_the_observation_after_the_end_is_dark() -> None:
    vector = ProbeVector("bandit", num_envs=2, seed=0)
    vector.reset()
    step = vector.step(np.array([0, 2]))
    assert step.reward.tolist() == [-1, 1]
    assert step.terminated.all()
    assert step.game_over.all()
    assert not step.next_obs.any()
    assert step.obs[:, 0].all()


def test_a_picture_shows_the_planes_side_by_side() -> None:
    vector = ProbeVector("chain", num_envs=1, seed=0)
    vector.reset()
    picture = vector.picture(vector.step(np.array([1])).obs[0])
    assert picture.shape == (200, 800, 3)
    assert picture[:, 200:400].min() == 255
    assert not picture[:, :200].any()
