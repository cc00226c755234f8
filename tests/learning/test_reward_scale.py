import numpy as np
import pytest

from bnmodes.envs.contract import Step
from bnmodes.learning.reward_scale import ReturnScale, mean_absolute_reward
from bnmodes.replay.ring import Replay
from helpers.random_games import RandomGames, make_spec

pytestmark = pytest.mark.numeric


def test_the_running_deviation_is_that_of_all_discounted_returns():
    rng = np.random.default_rng(0)
    scale = ReturnScale(gamma=0.9, num_envs=3)
    assert scale.deviation == 1.0
    returns, current = [], [0.0] * 3
    obs = np.zeros((3, 1, 1, 1), np.uint8)
    for _ in range(200):
        reward = rng.normal(1, 3, 3).astype(np.float32)
        over = rng.random(3) < 0.1
        scale.observe(Step(obs, obs, reward, over, over))
        for env in range(3):
            current[env] = float(reward[env]) + 0.9 * current[env]
            returns.append(current[env])
            if over[env]:
                current[env] = 0.0
    assert scale.deviation == pytest.approx(np.std(returns), rel=1e-6)
    again = ReturnScale(gamma=0.9, num_envs=3)
    again.load_state(scale.state())
    assert again.deviation == scale.deviation


def test_the_mean_reward_is_over_the_replay_and_one_before_any():
    spec = make_spec(1)
    games, replay = RandomGames(spec, 2, 0.0, 0), Replay(spec, 2, 20)
    games.begin(replay)
    for _ in range(35):
        games.decide(replay)
    newest = [abs(t.reward) for history in games.history for t in history[-10:]]
    assert mean_absolute_reward(replay) == pytest.approx(np.mean(newest), rel=1e-5)
    replay.reward[:] = 0
    assert mean_absolute_reward(replay) == 1.0
