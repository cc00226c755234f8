"""One full game in each environment, on games whose course is written down."""

from collections.abc import Sequence

import numpy as np
import pytest

from bnmodes.envs.contract import EnvSpec, Step
from bnmodes.runs.evaluate import play_games

pytestmark = pytest.mark.numeric

ON, LIFE, OVER, CUT = "goes on", "life lost", "game over", "truncated"


class ScriptedGames:
    """Environment e gives, at its t-th decision, `script[e][t % length]`: (reward, event)."""

    def __init__(self, script: Sequence[Sequence[tuple[float, str]]]):
        self.script = script
        self.num_envs = len(script)
        self.spec = EnvSpec("scripted", 2, (1, 10, 10), 1, 1.0, 1)
        self.actions: list[np.ndarray] = []

    def obs(self) -> np.ndarray:
        return np.zeros((self.num_envs, 1, 10, 10), np.uint8)

    def reset(self):
        return self.obs()

    def step(self, actions):
        events = [script[len(self.actions) % len(script)] for script in self.script]
        self.actions.append(actions)
        reward, happened = zip(*events, strict=True)
        terminated = np.array([event in (LIFE, OVER) for event in happened])
        game_over = np.array([event in (OVER, CUT) for event in happened])
        obs = self.obs()
        return Step(obs, obs, np.array(reward, np.float32), terminated, game_over)

    def state(self):
        return {}

    def load_state(self, state):
        return self.obs()

    def picture(self, obs):
        return np.zeros((10, 10, 3), np.uint8)


def always_one(obs):
    return np.ones(len(obs), np.int64)


def play(script, epsilon=0.0, greedy=always_one):
    games = ScriptedGames(script)
    return play_games(greedy, games, epsilon, np.random.default_rng(0), lambda: None), games


def test_a_lost_life_is_not_the_end_of_the_game():
    returns, _ = play([[(1, ON), (2, LIFE), (4, ON), (8, LIFE), (16, OVER)]])
    assert returns.tolist() == [31]


def test_each_environment_counts_its_first_game_only():
    short = [(1, ON), (1, OVER)]
    long = [(10, ON)] * 6 + [(10, OVER)]
    returns, games = play([short, long])
    assert returns.tolist() == [2, 70]
    assert len(games.actions) == 7, "it ends with the longest first game"


def test_a_truncated_game_counts_as_a_whole_one():
    assert play([[(3, ON), (3, CUT)]])[0].tolist() == [6]


def test_all_rows_are_played_on_so_that_a_batch_keeps_its_size():
    rows = []
    play(
        [[(0, OVER)], [(0, ON), (0, ON), (0, OVER)]],
        greedy=lambda obs: (rows.append(len(obs)), always_one(obs))[1],
    )
    assert rows == [2, 2, 2]


def test_actions_are_greedy_but_for_epsilon():
    long = [[(0, ON)] * 1999 + [(0, OVER)]]
    assert np.concatenate(play(long)[1].actions).mean() == 1
    assert np.concatenate(play(long, epsilon=1.0)[1].actions).mean() == pytest.approx(0.5, abs=0.05)
    assert np.concatenate(play(long, epsilon=0.2)[1].actions).mean() == pytest.approx(0.9, abs=0.03)


def test_the_stop_is_looked_at_before_every_decision():
    asked = []
    games = ScriptedGames([[(0, ON), (0, ON), (0, OVER)]])
    play_games(always_one, games, 0.0, np.random.default_rng(0), lambda: asked.append(1))
    assert len(asked) == 3
