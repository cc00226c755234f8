"""Sub-trajectories against the list of whole transitions that the games remember."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bnmodes.learning.targets import n_step_return
from bnmodes.replay.ring import Replay
from bnmodes.replay.sequences import gather_sequences, random_moves
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


def played(frame_shape=(1, 6, 6), stack=2, steps=3):
    games = RandomGames(make_spec(stack, frame_shape), 1, 0.2, seed=0)
    replay = Replay(games.spec, 1, 60)
    games.begin(replay)
    for _ in range(50):
        games.decide(replay)
    first = np.arange(5, 35)
    return gather_sequences(replay, np.zeros_like(first), first, steps)


def test_each_observation_is_shifted_by_itself_its_stack_together_and_edges_are_repeated():
    plain = played()
    options = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
    found = []
    for seed in range(5):
        moves = random_moves(plain, 1, np.random.default_rng(seed))
        shown = replace(plain, moves=moves)
        for row in range(len(plain.action)):
            length = int(plain.exists[row].sum())
            pairs = [(plain.observation(at), shown.observation(at), at) for at in range(4)]
            pairs.append((plain.last_next_obs(), shown.last_next_obs(), length))
            for before, after, at in pairs:
                move = tuple(moves[row, at].tolist())
                assert torch.equal(after[row], by_hand(before[row], *move))
            found.append(tuple(map(tuple, moves[row].tolist())))
    assert {move for moves in found for move in moves} == set(options)
    assert any(len(set(moves)) == 4 for moves in found), "one sub-trajectory, four shifts"


def by_hand(pictures: torch.Tensor, dy: int, dx: int) -> torch.Tensor:
    moved = torch.empty_like(pictures)
    for y in range(6):
        for x in range(6):
            moved[..., y, x] = pictures[..., min(max(y + dy, 0), 5), min(max(x + dx, 0), 5)]
    return moved


def test_nothing_is_shifted_by_0_pixels_and_no_vector():
    pictures, vectors = played(), played(frame_shape=(5,), stack=1)
    assert random_moves(pictures, 0, np.random.default_rng(0)) is None
    assert random_moves(vectors, 4, np.random.default_rng(0)) is None
