"""The replay against lists of whole observations, and its size, fairness and resumption."""

import copy
import resource
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bnmodes.envs.base import EnvSpec, Step
from bnmodes.errors import UsageError
from bnmodes.replay import Batch, Replay


def make_spec(stack: int, frame_shape: tuple[int, int, int] = (2, 2, 3)) -> EnvSpec:
    return EnvSpec("random", 4, frame_shape, stack, 1.0, 1, True)


ATARI = make_spec(4, (1, 84, 84))


@dataclass
class Transition:
    obs: np.ndarray
    action: int
    reward: float
    next_obs: np.ndarray
    terminated: bool
    starts_before: int
    """Games begun in its environment until it was made."""


class RandomGames:
    """Plays noise by the vector contract and remembers each whole transition, frame upon frame."""

    def __init__(self, spec: EnvSpec, num_envs: int, ending: float | np.ndarray, seed: int) -> None:
        self.spec, self.num_envs, self.ending = spec, num_envs, ending
        self.rng = np.random.default_rng(seed)
        self.history: list[list[Transition]] = [[] for _ in range(num_envs)]
        self.starts = [0] * num_envs

    def noise(self, channels: int) -> np.ndarray:
        return self.rng.integers(0, 256, (channels, *self.spec.frame_shape[1:]), dtype=np.uint8)

    def first_obs(self, env: int) -> np.ndarray:
        self.starts[env] += 1
        return self.noise(self.spec.obs_shape[0])

    def begin(self, replay: Replay) -> None:
        self.obs = [self.first_obs(env) for env in range(self.num_envs)]
        replay.begin(np.stack(self.obs))

    def decide(self, *replays: Replay) -> None:
        actions = self.rng.integers(0, 4, self.num_envs)
        rewards = self.rng.normal(size=self.num_envs).astype(np.float32)
        ends = self.rng.random(self.num_envs) < self.ending
        terminated = self.rng.random(self.num_envs) < np.where(ends, 0.5, 0.2)  # else truncated
        successors = []
        for env, obs in enumerate(self.obs):
            channels = self.spec.frame_shape[0]
            successor = np.concatenate([obs[channels:], self.noise(channels)])
            successors.append(successor)
            self.history[env].append(
                Transition(
                    obs,
                    int(actions[env]),
                    float(rewards[env]),
                    successor,
                    bool(terminated[env]),
                    self.starts[env],
                )
            )
            self.obs[env] = self.first_obs(env) if ends[env] else successor
        raw = np.full(self.num_envs, 99, np.float32)
        step = Step(np.stack(self.obs), np.stack(successors), raw, terminated, ends)
        for replay in replays:
            replay.add(actions, rewards, step)

    def still_held(self, env: int, replay: Replay, capacity: int) -> list[Transition]:
        """The newest of one environment, within its share of the capacity and its frames: `stack`
        for the first observation, one for each transition, `stack` for each game begun since."""
        newest = self.history[env][::-1][: capacity // self.num_envs]
        room, stack = len(replay.frames), self.spec.stack

        def frames(count: int, transition: Transition) -> int:
            return stack + count + stack * (self.starts[env] - transition.starts_before)

        return [t for count, t in enumerate(newest, 1) if frames(count, t) <= room][::-1]


def everything(replay: Replay, env: int) -> Batch:
    held = np.arange(replay.oldest[env], replay.made)
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
    stack=st.sampled_from([1, 4]),
    num_envs=st.integers(1, 3),
    lane_capacity=st.integers(1, 25),
    spare=st.integers(0, 2),
    ending=st.sampled_from([0.0, 0.02, 0.1, 0.5, 1.0]),
    seed=st.integers(0, 2**32 - 1),
    decisions=st.integers(0, 150),
)


@settings(max_examples=150, deadline=None)
@small_runs
def test_it_holds_exactly_the_newest_transitions_as_they_were_seen(
    stack, num_envs, lane_capacity, spare, ending, seed, decisions
):
    capacity = num_envs * lane_capacity + min(spare, num_envs - 1)
    games = RandomGames(make_spec(stack), num_envs, ending, seed)
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
    stack, num_envs, lane_capacity, spare, ending, seed, decisions
):
    games = RandomGames(make_spec(stack), num_envs, ending, seed)
    capacity = num_envs * lane_capacity
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
        for name in vars(ours):
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


def test_sampling_is_uniform_over_unequal_lanes():
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
