"""Prioritised drawing against plain counting."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bnmodes.replay.priorities import Priorities
from bnmodes.replay.ring import Replay
from helpers.random_games import RandomGames, make_spec


def played(num_envs=1, capacity=40, decisions=30, ending=0.1, seed=0):
    spec = make_spec(stack=2)
    games, replay = RandomGames(spec, num_envs, ending, seed), Replay(spec, num_envs, capacity)
    priorities = Priorities(replay)
    games.begin(replay)
    for _ in range(decisions):
        games.decide(replay)
        priorities.added()
    return games, replay, priorities


def shares(priorities, draws, seed=0):
    """How often each (env_index, transition) is drawn."""
    env_index, transition = priorities.sample(draws, np.random.default_rng(seed))
    pairs, counts = np.unique(np.stack([env_index, transition]), axis=1, return_counts=True)
    return dict(zip(map(tuple, pairs.T.tolist()), counts / draws, strict=True))


def test_new_transitions_are_drawn_alike():
    _, replay, priorities = played()
    drawn = shares(priorities, 60_000)
    assert len(drawn) == len(replay) == 30
    np.testing.assert_allclose(list(drawn.values()), 1 / 30, atol=0.005)


def test_transitions_are_drawn_in_proportion_to_their_clipped_powered_error():
    _, _, priorities = played()
    errors = np.linspace(0, 40, 30).astype(np.float32)
    priorities.update(np.zeros(30, np.int64), np.arange(30), errors)
    expected = np.maximum(errors, 1) ** 0.4
    drawn = shares(priorities, 200_000)
    got = [drawn[0, transition] for transition in range(30)]
    np.testing.assert_allclose(got, expected / expected.sum(), atol=0.003)


def test_a_new_transition_gets_the_largest_priority_ever_given():
    games, replay, priorities = played()
    priorities.update(np.array([0]), np.array([3]), np.array([32.0], np.float32))
    priorities.update(np.array([0]), np.array([3]), np.array([0.1], np.float32))
    games.decide(replay)
    priorities.added()
    drawn = shares(priorities, 100_000)
    assert abs(drawn[0, 30] / drawn[0, 3] - 32**0.4) < 0.4


@settings(max_examples=40)
@given(
    num_envs=st.integers(1, 3),
    capacity=st.integers(6, 30),
    decisions=st.integers(1, 60),
    ending=st.sampled_from([0.05, 0.7]),
    seed=st.integers(0, 5),
)
def test_exactly_the_held_transitions_are_drawn(num_envs, capacity, decisions, ending, seed):
    """With an ending of 0.7 the frames run out before the transitions do."""
    _, replay, priorities = played(num_envs, capacity, decisions, ending, seed)
    held = {
        (env_index, transition)
        for env_index in range(num_envs)
        for transition in range(replay.oldest[env_index], replay.transitions_added)
    }
    assert set(shares(priorities, 4_000)) == held


def test_a_loaded_state_draws_the_same():
    games, replay, priorities = played(2, 20, 33)
    env_index, transition = priorities.sample(10, np.random.default_rng(1))
    priorities.update(env_index, transition, np.arange(10, dtype=np.float32))
    copy = Replay(replay.spec, 2, 20)
    copied = Priorities(copy)
    copy.load_state(replay.state())
    copied.load_state(priorities.state())
    games.decide(replay, copy)
    for each in (priorities, copied):
        each.added()
    assert shares(priorities, 500, seed=3) == shares(copied, 500, seed=3)
    assert copied.largest == priorities.largest > 1
