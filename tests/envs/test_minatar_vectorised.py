"""Space Invaders as arrays against the package's own games: cell by cell, step by step."""

from collections.abc import Callable

import numpy as np
import pytest
from minatar import Environment

from bnmodes.envs.contract import Step
from bnmodes.envs.minatar.minatar_vector import MinAtarVector, game_seeds

GAME = "space_invaders"
IDS = (0, 1, 3, 5)
STAY, LEFT, RIGHT, FIRE = range(4)

Policy = Callable[[np.ndarray, np.random.Generator], np.ndarray]


class Reference:
    """The package's games, one by one, with its own sticky actions."""

    def __init__(self, num_envs: int, seed: int) -> None:
        self.envs = [Environment(GAME) for _ in range(num_envs)]
        for env, game_seed in zip(self.envs, game_seeds(seed, num_envs), strict=True):
            env.seed(game_seed)
            env.reset()

    def observe(self) -> np.ndarray:
        return np.array([np.moveaxis(env.state(), -1, 0) for env in self.envs])

    def check(self, step: Step, actions: np.ndarray) -> None:
        """Take the same actions; everything that `step` says must be so."""
        outcomes = [env.act(IDS[action]) for env, action in zip(self.envs, actions, strict=True)]
        reward, terminal = (np.array(each) for each in zip(*outcomes, strict=True))
        np.testing.assert_array_equal(step.next_obs, self.observe())
        np.testing.assert_array_equal(step.reward, reward)
        np.testing.assert_array_equal(step.terminated, terminal)
        np.testing.assert_array_equal(step.game_over, terminal)
        for row in np.flatnonzero(terminal):
            self.envs[row].reset()
        np.testing.assert_array_equal(step.obs, self.observe())

    def state(self) -> dict:
        """As checkpoints have it: every attribute of a game, arrays of floats among them."""
        unsaved = ("channels", "action_map", "random")
        return {
            "decisions": np.zeros(len(self.envs), np.int64),
            "envs": [
                {
                    "last_action": env.last_action,
                    "random": env.random.get_state(legacy=False),
                    "attributes": {k: v for k, v in vars(env.env).items() if k not in unsaved},
                }
                for env in self.envs
            ],
        }


def play_at_random(obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(len(IDS), size=len(obs))


def shoot_and_dodge(obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Leave a column where something comes down, else go below aliens and fire."""
    del rng
    cannon = obs[:, 0, 9].argmax(axis=1)[:, None]
    danger = (obs[:, 5, 4:9] | obs[:, 1, 4:9]).any(axis=1)

    def one_step_towards(wanted: np.ndarray) -> np.ndarray:
        distance = np.where(wanted, np.abs(np.arange(10) - cannon), 10)
        return np.clip(distance.argmin(axis=1)[:, None], cannon - 1, cannon + 1)

    hunt = one_step_towards(obs[:, 1].any(axis=1))
    hunt = np.where(np.take_along_axis(danger, hunt, 1), cannon, hunt)
    column = np.where(np.take_along_axis(danger, cannon, 1), one_step_towards(~danger), hunt)
    return np.select([column < cannon, column > cannon], [LEFT, RIGHT], FIRE)[:, 0]


def dodge(obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    actions = shoot_and_dodge(obs, rng)
    return np.where(actions == FIRE, STAY, actions)


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("policy", [play_at_random, shoot_and_dodge, dodge])
def test_plays_the_package(policy: Policy, seed: int) -> None:
    num_envs = 20
    vector, reference = MinAtarVector(GAME, num_envs, seed), Reference(num_envs, seed)
    obs = vector.reset()
    np.testing.assert_array_equal(obs, reference.observe())

    rng = np.random.default_rng(seed)
    games_over = highest_level = lowest_alien = 0
    for _ in range(1500):
        actions = policy(obs, rng)
        step = vector.step(actions)
        reference.check(step, actions)
        obs = step.obs
        games_over += step.game_over.sum()
        levels = [env.env.difficulty_ramp() for env in reference.envs]
        highest_level = max(highest_level, *levels)
        lowest_alien = max(lowest_alien, np.flatnonzero(obs[:, 1].any(axis=(0, 2))).max())
    assert games_over >= num_envs
    if policy is shoot_and_dodge:
        assert highest_level >= 3
    if policy is dodge:
        assert lowest_alien == 9


@pytest.mark.parametrize("seed", range(3))
def test_plays_the_package_from_any_state(seed: int) -> None:
    """What play seldom meets: the last level, landings, waves cleared by two shots at once."""
    num_envs = 100
    vector, reference = MinAtarVector(GAME, num_envs, seed), Reference(num_envs, seed)
    rng = np.random.default_rng(seed)
    levels = set()
    for _ in range(8):
        for game in (env.env for env in reference.envs):
            aliens = rng.random((10, 10)) < rng.choice([0.01, 0.05, 0.3])
            aliens[tuple(rng.integers(10, size=2))] = True  # a game is never without
            shots, bombs = rng.random((2, 10, 10)) < 0.1
            shots[9] = False
            game.alien_map, game.f_bullet_map, game.e_bullet_map = (
                each.astype(float) for each in (aliens, shots, bombs)
            )
            game.pos = int(rng.integers(10))
            game.alien_dir = int(rng.choice([-1, 1]))
            game.enemy_move_interval = int(rng.integers(6, 13))
            game.alien_move_timer = int(rng.integers(game.enemy_move_interval))
            game.alien_shot_timer = int(rng.integers(10))
            game.shot_timer = int(rng.integers(5))
        np.testing.assert_array_equal(vector.load_state(reference.state()), reference.observe())
        for _ in range(15):
            actions = play_at_random(reference.observe(), rng)
            reference.check(vector.step(actions), actions)
            levels |= {env.env.enemy_move_interval for env in reference.envs}
    assert levels == set(range(6, 13))


def test_a_state_saved_in_the_middle_goes_on_as_the_package_does() -> None:
    vector, reference = MinAtarVector(GAME, 30, seed=2), Reference(30, seed=2)
    obs, rng = vector.reset(), np.random.default_rng(0)
    for _ in range(8):
        for _ in range(40):
            actions = shoot_and_dodge(obs, rng)
            step = vector.step(actions)
            reference.check(step, actions)
            obs = step.obs
        state = vector.state()
        vector.step(actions)  # must not reach into what was saved
        vector = MinAtarVector(GAME, 30, seed=99)
        np.testing.assert_array_equal(vector.load_state(state), obs)


def test_a_saved_game_shares_no_memory_and_holds_plain_values() -> None:
    vector = MinAtarVector(GAME, 2, seed=0)
    vector.reset()
    leaves = [leaf for game in vector.state()["envs"] for leaf in game["attributes"].values()]
    arrays = [leaf for leaf in leaves if isinstance(leaf, np.ndarray)]
    assert {type(leaf) for leaf in leaves} == {np.ndarray, int}
    assert all(array.base is None and array.shape == (10, 10) for array in arrays)
