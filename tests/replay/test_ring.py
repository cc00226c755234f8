"""The replay against lists of whole observations, and its size, fairness and resumption."""

import copy
import resource
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bnmodes.errors import UsageError
from bnmodes.replay.ring import Batch, Replay
from helpers.random_games import VECTORS, RandomGames, Transition, make_spec

ATARI = make_spec(4, (1, 84, 84))


def everything(replay: Replay, env: int) -> Batch:
    held = np.arange(replay.oldest[env], replay.transitions_added)
    return replay.gather(np.full_like(held, env), held)


def same(batch: Batch, transitions: list[Transition]) -> bool:
    return len(batch.action) == len(transitions) and all(
        np.array_equal(
            getattr(batch, name).numpy(), np.stack([getattr(t, name) for t in transitions])
        )
        for name in ("obs", "action", "reward", "next_obs", "terminated")
        if transitions
    )


small_runs = given(
    spec=st.sampled_from([make_spec(1), make_spec(4), VECTORS]),
    num_envs=st.integers(1, 3),
    env_capacity=st.integers(1, 25),
    spare=st.integers(0, 2),
    ending=st.sampled_from([0.0, 0.02, 0.1, 0.5, 1.0]),
    seed=st.integers(0, 2**32 - 1),
    decisions=st.integers(0, 150),
)


@settings(max_examples=80, deadline=None)
@small_runs
def test_it_holds_exactly_the_newest_transitions_as_they_were_seen(
    spec, num_envs, env_capacity, spare, ending, seed, decisions
):
    capacity = num_envs * env_capacity + min(spare, num_envs - 1)
    games = RandomGames(spec, num_envs, ending, seed)
    replay = Replay(games.spec, num_envs, capacity)
    games.begin(replay)
    for _ in range(decisions):
        if games.rng.random() < 0.03:
            games.begin(replay)
        games.decide(replay)
        expected = [games.still_held(env, replay, capacity) for env in range(num_envs)]
        assert len(replay) == sum(map(len, expected)) <= capacity
        for env in range(num_envs):
            assert same(everything(replay, env), expected[env])


@settings(max_examples=60, deadline=None)
@small_runs
def test_a_restored_replay_goes_on_identically(
    spec, num_envs, env_capacity, spare, ending, seed, decisions
):
    games = RandomGames(spec, num_envs, ending, seed)
    capacity = num_envs * env_capacity
    replay, restored = (Replay(games.spec, num_envs, capacity) for _ in range(2))
    games.begin(restored)  # what a used replay held before must not matter
    for _ in range(spare):
        games.decide(restored)
    games.begin(replay)
    for _ in range(decisions):
        games.decide(replay)
    restored.load_state(copy.deepcopy(replay.state()))
    for _ in range(1 + decisions // 2):
        games.decide(replay, restored)
        if not len(replay):
            continue
        ours, theirs = (r.sample(16, np.random.default_rng(seed)) for r in (replay, restored))
        for name in vars(ours).keys() - {"moment_obs"}:
            assert getattr(ours, name).equal(getattr(theirs, name))


def test_state_is_the_used_part_without_a_copy():
    games = RandomGames(make_spec(4), 2, 0.2, seed=0)
    replay = Replay(games.spec, 2, 1000)
    games.begin(replay)
    for _ in range(30):
        games.decide(replay)
    state = replay.state()
    assert len(state["action"]) == 30
    assert len(state["frames"]) < 100
    for name in ("frames", "newest_frame", "action", "reward", "terminated"):
        assert np.shares_memory(state[name], getattr(replay, name))
        assert state[name].flags.c_contiguous


def test_a_replay_of_another_size_is_refused():
    saved = Replay(make_spec(4), 2, 100).state()
    with pytest.raises(UsageError, match="settings"):
        Replay(make_spec(4), 2, 102).load_state(saved)


def test_vectors_are_stored_as_they_are():
    replay = Replay(VECTORS, 3, 90)
    games = RandomGames(VECTORS, 3, 0.2, seed=0)
    games.begin(replay)
    for _ in range(10):
        games.decide(replay)
    batch = replay.sample(7, np.random.default_rng(0))
    assert batch.obs.dtype == batch.next_obs.dtype == torch.float32
    assert batch.obs.shape == batch.next_obs.shape == (7, 5)
    assert replay.frames.dtype == torch.float32


def test_sampling_is_uniform_over_unequal_environments():
    games = RandomGames(make_spec(1), 2, np.array([1.0, 0.0]), seed=1)
    replay = Replay(games.spec, 2, 80)
    games.begin(replay)
    for _ in range(100):
        games.decide(replay)
    held = games.still_held(0, replay, 80) + games.still_held(1, replay, 80)
    assert len(held) == len(replay) < 80  # the environment of very short games holds fewer

    counts = Counter(replay.sample(400 * len(held), np.random.default_rng(3)).reward.tolist())
    assert set(counts) == {t.reward for t in held}
    chi_square = sum((count - 400) ** 2 / 400 for count in counts.values())
    degrees = len(held) - 1
    assert abs(chi_square - degrees) < 4 * np.sqrt(2 * degrees)


def test_a_million_atari_transitions_fit_in_memory_that_is_taken_only_when_used():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    replay = Replay(ATARI, 1, 1_000_000)
    taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # kB
    assert 7.0e9 < replay.nbytes <= 7.5e9
    assert 1024 * taken < replay.nbytes / 10


@pytest.mark.parametrize(("stack", "length"), [(1, 5), (1, 10), (4, 80)])
def test_short_games_still_fill_the_capacity(stack, length):
    games = RandomGames(make_spec(stack, (1, 1, 1)), 2, 0.0, seed=0)
    replay = Replay(games.spec, 2, 4000)
    games.begin(replay)
    for decision in range(1, 5000):
        games.ending = float(decision % length == 0)
        games.decide(replay)
        assert len(replay) == min(2 * decision, 4000)


def test_misuse_is_named():
    games = RandomGames(make_spec(1), 2, 0.0, seed=0)
    games.obs = [games.first_obs(0), games.first_obs(1)]
    with pytest.raises(RuntimeError, match="begin"):
        games.decide(Replay(games.spec, 2, 10))
    with pytest.raises(UsageError, match="empty"):
        Replay(games.spec, 2, 10).sample(4, np.random.default_rng(0))
    with pytest.raises(UsageError, match="capacity"):
        Replay(games.spec, 2, 1)
