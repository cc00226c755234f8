"""Sub-trajectories against the list of whole transitions that the games remember."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bnmodes.learning.targets import n_step_return
from bnmodes.replay.ring import Replay
from bnmodes.replay.sequences import gather_sequences, shifted
from helpers.random_games import VECTORS, RandomGames, Transition, make_spec


def stretch(history: list[Transition], first: int, steps: int) -> list[Transition]:
    """Transitions from one on, until the game ends, a step terminates, or there is none yet."""
    taken = []
    for transition in history[first : first + steps]:
        if transition.starts_before != history[first].starts_before:
            break
        taken.append(transition)
        if transition.terminated:
            break
    return taken


@settings(max_examples=60)
@given(
    spec=st.sampled_from([make_spec(1), make_spec(2), make_spec(3), VECTORS]),
    num_envs=st.integers(1, 2),
    capacity=st.integers(8, 30),
    decisions=st.integers(1, 70),
    ending=st.sampled_from([0.0, 0.1, 0.6]),
    steps=st.integers(1, 5),
    seed=st.integers(0, 3),
)
def test_sequences_and_returns_are_what_was_played(
    spec, num_envs, capacity, decisions, ending, steps, seed
):
    games, replay = RandomGames(spec, num_envs, ending, seed), Replay(spec, num_envs, capacity)
    games.begin(replay)
    for _ in range(decisions):
        games.decide(replay)
    held = [
        (env_index, transition)
        for env_index in range(num_envs)
        for transition in range(replay.oldest[env_index], replay.transitions_added)
    ]
    if not held:
        return
    env_indices, transitions = np.array(held, np.int64).T
    sequences = gather_sequences(replay, env_indices, transitions, steps)
    played = (sequences.reward, sequences.terminated, sequences.exists)
    returns, discounts = n_step_return(*played, gamma=0.9)
    last = sequences.last_next_obs()
    for row, (env_index, first) in enumerate(held):
        expected = stretch(games.history[env_index], first, steps)
        length = len(expected)
        assert sequences.exists[row].tolist() == [k < length for k in range(steps)]
        for k, transition in enumerate(expected):
            np.testing.assert_array_equal(sequences.observation(k)[row], transition.obs)
            np.testing.assert_array_equal(sequences.observation(k + 1)[row], transition.next_obs)
            assert sequences.action[row, k] == transition.action
            assert sequences.reward[row, k] == np.float32(transition.reward)
            assert sequences.terminated[row, k] == transition.terminated
        np.testing.assert_array_equal(last[row], expected[-1].next_obs)
        total = sum(0.9**k * transition.reward for k, transition in enumerate(expected))
        assert returns[row].item() == pytest.approx(total, abs=1e-5)
        assert discounts[row].item() == pytest.approx(
            0.0 if expected[-1].terminated else 0.9**length
        )


def test_games_end_in_both_ways_in_the_test_above():
    """Otherwise it would promise nothing about truncations."""
    games = RandomGames(make_spec(1), 1, 0.6, seed=0)
    replay = Replay(games.spec, 1, 100)
    games.begin(replay)
    for _ in range(70):
        games.decide(replay)
    history = games.history[0]
    ends = [
        before.terminated
        for before, after in pairwise(history)
        if after.starts_before != before.starts_before
    ]
    assert {True, False} == set(ends)
    assert any(
        before.terminated and after.starts_before == before.starts_before
        for before, after in pairwise(history)
    ), "a life lost: terminated, and the game went on"


def test_a_shift_moves_a_rows_pictures_together_and_repeats_the_edge():
    frames = torch.arange(2 * 3 * 1 * 6 * 6, dtype=torch.uint8).reshape(2, 3, 1, 6, 6)
    moved = {
        tuple((dy, dx))
        for seed in range(60)
        for row, picture in enumerate(shifted(frames, 1, np.random.default_rng(seed)))
        for dy in (-1, 0, 1)
        for dx in (-1, 0, 1)
        if torch.equal(picture, by_hand(frames[row], dy, dx))
    }
    assert moved == {(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)}
    for seed in range(20):
        for row, picture in enumerate(shifted(frames, 1, np.random.default_rng(seed))):
            options = [by_hand(frames[row], dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
            assert any(torch.equal(picture, option) for option in options)
    assert shifted(frames, 0, np.random.default_rng(0)) is frames


def by_hand(pictures: torch.Tensor, dy: int, dx: int) -> torch.Tensor:
    moved = torch.empty_like(pictures)
    for y in range(6):
        for x in range(6):
            moved[..., y, x] = pictures[..., min(max(y + dy, 0), 5), min(max(x + dx, 0), 5)]
    return moved


def test_vectors_are_not_shifted():
    vectors = torch.randn(3, 2, 5)
    assert shifted(vectors, 4, np.random.default_rng(0)) is vectors
