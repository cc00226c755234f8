from copy import deepcopy

import numpy as np

from bnmodes.runs.returns import GameReturns


def over(*rows: int) -> np.ndarray:
    return np.isin(np.arange(3), rows)


def test_training_and_test_games_are_told_apart_and_taken_once():
    games = GameReturns(num_envs=2, env_rows=3)
    games.add(np.array([1.0, 2.0, 4.0]), over())
    games.add(np.array([1.0, 2.0, 4.0]), over(0, 2))
    games.add(np.array([1.0, 2.0, 4.0]), over(1))
    assert games.last == 6.0
    assert games.take_training() == {"games": 2, "return": 4.0}
    assert games.take_training() == {"games": 0}
    # The test environment's last return was 0 at the first step, and 8 at the other two.
    assert games.take_tests() == {"games": 1, "return": 8.0, "last_return": 16 / 3}
    assert games.take_tests() == {"games": 0}


def test_a_state_brings_games_under_way_back_and_new_games_begin_at_0():
    whole, resumed = (GameReturns(num_envs=2, env_rows=3) for _ in range(2))
    whole.add(np.array([1.0, 2.0, 4.0]), over(2))
    resumed.load_state(deepcopy(whole.state()))
    for games in (whole, resumed):
        games.add(np.ones(3), over(0, 1, 2))
    assert whole.take_training() == resumed.take_training() == {"games": 2, "return": 2.5}
    assert whole.take_tests() == resumed.take_tests()
    whole.add(np.ones(3), over())
    whole.new_games()
    whole.add(np.ones(3), over(0))
    assert whole.take_training() == {"games": 1, "return": 1.0}
