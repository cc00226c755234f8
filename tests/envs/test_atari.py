from itertools import pairwise

import numpy as np
import pytest
from ale_py import roms

from bnmodes.envs import atari
from bnmodes.envs.atari import ROM_IDS, AtariVector, NewLife
from bnmodes.envs.contract import Step

PAPER_GAMES = {
    "Alien",
    "Amidar",
    "Assault",
    "Asterix",
    "BankHeist",
    "BattleZone",
    "Boxing",
    "Breakout",
    "ChopperCommand",
    "CrazyClimber",
    "DemonAttack",
    "Freeway",
    "Frostbite",
    "Gopher",
    "Hero",
    "Jamesbond",
    "Kangaroo",
    "Krull",
    "KungFuMaster",
    "MsPacman",
    "Pong",
    "PrivateEye",
    "Qbert",
    "RoadRunner",
    "Seaquest",
    "UpNDown",
}


def play(vector: AtariVector, decisions: int) -> list[Step]:
    rng = np.random.default_rng(0)
    vector.reset()
    shape = (decisions, vector.num_envs)
    return [vector.step(row) for row in rng.integers(vector.spec.num_actions, size=shape)]


def play_one_game(vector: AtariVector) -> tuple[np.ndarray, list[Step]]:
    rng = np.random.default_rng(0)
    first = vector.reset()
    steps: list[Step] = []
    for actions in rng.integers(vector.spec.num_actions, size=(3_000, 1)):
        steps.append(vector.step(actions))
        if steps[-1].game_over[0]:
            return first, steps
    raise AssertionError("a random player loses sooner")


def continues(stack: np.ndarray, earlier: np.ndarray) -> bool:
    return bool((stack[:3] == earlier[1:]).all())


def is_first_of_a_game(stack: np.ndarray) -> bool:
    return not stack[:3].any() and stack[3].any()


def test_the_seed_decides_whatever_the_threads() -> None:
    def pictures(seed: int, threads: int) -> np.ndarray:
        vector = AtariVector("Breakout", 2, seed, threads)
        return np.array([step.obs for step in play(vector, 250)])

    first = pictures(seed=0, threads=1)
    assert (first == pictures(seed=0, threads=2)).all()
    assert (first != pictures(seed=1, threads=1)).any()
    assert (first[:, 0] != first[:, 1]).any()


def test_a_life_loss_ends_the_learning_episode_but_not_the_game() -> None:
    first, steps = play_one_game(AtariVector("Breakout", 1, seed=0))
    endings = [step for step in steps if step.terminated[0]]
    assert len(endings) == 5
    assert [bool(step.game_over[0]) for step in endings] == [False] * 4 + [True]

    assert is_first_of_a_game(first[0])
    before = first[0]
    for step in steps:
        assert continues(step.next_obs[0], before)
        if step.game_over[0]:
            assert is_first_of_a_game(step.obs[0])
            assert (step.next_obs[0] != step.obs[0]).any()
        else:
            assert (step.next_obs[0] == step.obs[0]).all()
        before = step.obs[0]


def test_the_end_of_one_game_leaves_the_others_alone() -> None:
    steps = play(AtariVector("Breakout", 3, seed=0, threads=2), 400)
    alone = [
        (earlier, step, row)
        for earlier, step in pairwise(steps)
        for row in range(3)
        if step.game_over.any() and not step.game_over[row]
    ]
    assert alone
    for earlier, step, row in alone:
        assert continues(step.next_obs[row], earlier.obs[row])
        assert (step.next_obs[row] == step.obs[row]).all()


def test_rewards_are_raw_and_cover_the_whole_game() -> None:
    _, steps = play_one_game(AtariVector("Pong", 1, seed=0))
    assert -21 <= sum(step.reward[0] for step in steps) <= -15
    assert sum(step.reward[0] == -1 for step in steps) == 21
    pacman = play(AtariVector("MsPacman", 1, seed=0), 100)
    assert max(step.reward[0] for step in pacman) >= 10


def test_the_cap_is_in_frames_and_truncates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atari, "MAX_FRAMES", 100)
    steps = play(AtariVector("Pong", 2, seed=0), 75)
    over = np.array([step.game_over for step in steps])
    assert np.flatnonzero(over.all(axis=1)).tolist() == [24, 49, 74]
    assert over.sum() == 2 * 3
    assert not any(step.terminated.any() for step in steps)
    for row in range(2):
        assert continues(steps[24].next_obs[row], steps[23].obs[row])
        assert is_first_of_a_game(steps[24].obs[row])


def test_later_games_are_not_the_first_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atari, "MAX_FRAMES", 120)
    vector = AtariVector("Freeway", 1, seed=0)
    beginnings = [vector.reset()[0], vector.reset()[0]]
    beginnings += [step.obs[0] for step in play(vector, 90) if step.game_over[0]]
    assert len(beginnings) == 5
    assert len({picture.tobytes() for picture in beginnings}) >= 4


def test_what_a_step_returned_stays_as_it_was() -> None:
    steps = play(vector := AtariVector("Pong", 1, seed=0), 2)
    kept = steps[1].obs.copy()
    vector.step(np.array([2]))
    np.testing.assert_array_equal(steps[1].obs, kept)


def test_a_picture_enlarges_the_newest_frame() -> None:
    step = play(vector := AtariVector("Pong", 1, seed=0), 5)[-1]
    picture = vector.picture(step.obs[0])
    assert picture.shape == (252, 252, 3)
    np.testing.assert_array_equal(picture[::3, ::3, 1], step.obs[0, -1])


def test_a_small_screen_shows_the_same_game() -> None:
    large, small = (
        play(AtariVector("Breakout", 2, seed=0, suite=suite), 300)
        for suite in ("atari", "atari-small")
    )
    for ours, theirs in zip(large, small, strict=True):
        for field in ("reward", "terminated", "game_over"):
            np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field))
    assert small[-1].obs.shape == (2, 4, 42, 42)
    halved = large[-1].obs[0, -1].reshape(42, 2, 42, 2).mean((1, 3))
    assert np.abs(halved - small[-1].obs[0, -1]).mean() < 2, "of 255 levels of grey"


def test_a_small_picture_is_enlarged_to_the_same_size() -> None:
    step = play(vector := AtariVector("Pong", 1, seed=0, suite="atari-small"), 5)[-1]
    picture = vector.picture(step.obs[0])
    assert picture.shape == (252, 252, 3)
    np.testing.assert_array_equal(picture[::6, ::6, 1], step.obs[0, -1])


def test_the_sticky_setting_ends_nothing_at_a_life_loss_and_presses_nothing() -> None:
    first, steps = play_one_game(AtariVector("Breakout-sticky", 1, seed=0))
    endings = [step for step in steps if step.terminated[0]]
    assert len(endings) == 1
    assert endings[0].game_over[0]
    assert endings[0] is steps[-1]
    plain, _ = play_one_game(AtariVector("Breakout", 1, seed=0))
    firsts = [AtariVector("Breakout-sticky", 1, seed=seed).reset() for seed in range(4)]
    for other in firsts:
        np.testing.assert_array_equal(other, first, "no no-op start: every game begins alike")
    assert not (first[0, 3] == plain[0, 3]).all()


def test_sticky_actions_make_equal_actions_lead_to_different_games() -> None:
    """Without a no-op start, only sticky actions tell seeds apart."""

    def pictures(name: str, seed: int) -> np.ndarray:
        vector = AtariVector(name, 1, seed)
        return np.array([step.obs for step in play(vector, 60)])

    assert (pictures("Pong-sticky", 0) != pictures("Pong-sticky", 1)).any()
    assert (pictures("Pong-sticky", 0) == pictures("Pong-sticky", 0)).all()


def test_names_are_the_papers() -> None:
    assert set(ROM_IDS) >= PAPER_GAMES
    assert set(roms.get_all_rom_ids()) - set(ROM_IDS.values()) == atari.TWO_PLAYER_ROMS


@pytest.mark.parametrize(
    ("game", "max_frames", "suite"),
    [
        ("Breakout", 108_000, "atari"),
        ("Breakout", 108_000, "atari-small"),
        ("Breakout-sticky", 108_000, "atari"),
        ("Pong", 480, "atari"),
        ("Pong-sticky", 108_000, "atari"),
    ],
)
def test_saved_games_go_on_exactly(
    game: str, max_frames: int, suite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Games end, and environments are seeded again, at different times before and after."""
    monkeypatch.setattr(atari, "MAX_FRAMES", max_frames)
    monkeypatch.setattr(atari, "RESEED_AFTER", 150)
    vector = AtariVector(game, 3, seed=0, suite=suite)
    obs, rng = vector.reset(), np.random.default_rng(1)
    first_seeds = vector.state()["seeds"]
    for actions in rng.integers(vector.spec.num_actions, size=(390, 3)):
        obs = vector.step(actions).obs
    state = vector.state()
    if game.startswith("Breakout"):
        assert len(set(state["lengths"].tolist())) > 1
    if game != "Pong-sticky":
        assert (state["seeds"] != first_seeds).any()
    actions = rng.integers(vector.spec.num_actions, size=(200, 3))
    expected = [vector.step(row) for row in actions]

    resumed = AtariVector(game, 3, seed=99, suite=suite)
    for again in range(2):
        np.testing.assert_array_equal(resumed.load_state(state), obs, f"time {again}")
        for row, step in zip(actions, expected, strict=True):
            ours = resumed.step(row)
            for field, value in vars(step).items():
                np.testing.assert_array_equal(getattr(ours, field), value)
    if game.startswith("Breakout"):
        over = np.array([step.game_over for step in expected])
        assert over.any()
        assert not over.all(axis=1).any()
    assert (vector.state()["seeds"] == resumed.state()["seeds"]).all()


def test_another_emulators_games_do_not_go_on() -> None:
    play(vector := AtariVector("Pong-sticky", 2, seed=0), 60)
    state = vector.state()
    resumed = AtariVector("Pong-sticky", 2, seed=1)
    other = state | {"seeds": state["seeds"] + 1}
    assert resumed.load_state(other) is None
    richer = state | {"reward_sums": state["reward_sums"] + 1}
    assert resumed.load_state(richer) is None
    assert is_first_of_a_game(resumed.reset()[1])
    assert resumed.load_state(state) is not None


def test_lives_are_told_after_an_environment_was_seeded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(atari, "RESEED_AFTER", 0)
    steps = play(vector := AtariVector("Breakout", 2, seed=0), 900)
    for row in range(2):
        ends = [(step.terminated[row], step.game_over[row]) for step in steps]
        lives = [bool(over) for terminated, over in ends if terminated]
        games = len(lives) // 5
        assert games >= 2
        assert lives[: 5 * games] == ([False] * 4 + [True]) * games
        assert not any(over and not terminated for terminated, over in ends)
    assert (vector.state()["lengths"] < 900).all()


NO_OP, FIRE = np.array([0]), 1
FIRES = NewLife(fire=True)


def steps_of_waiting(vector: AtariVector, decisions: int) -> list[Step]:
    """Of an agent that presses nothing."""
    vector.reset()
    return [vector.step(NO_OP) for _ in range(decisions)]


def stands_still(steps: list[Step]) -> bool:
    return all((step.obs[0, -1] == steps[-1].obs[0, -1]).all() for step in steps[-20:])


def test_breakout_waits_for_ever_for_fire_unless_the_next_life_begins_with_it() -> None:
    waiting = steps_of_waiting(AtariVector("Breakout", 1, seed=0), 300)
    assert not any(step.game_over[0] for step in waiting)
    assert stands_still(waiting)
    assert all(step.pressed is None for step in waiting)
    fired = steps_of_waiting(AtariVector("Breakout", 1, seed=0, new_life=FIRES), 300)
    assert sum(step.game_over[0] for step in fired) == 2, "five lives, twice"
    assert not stands_still(fired)
    for before, step in pairwise(fired):
        new_life = before.terminated[0] and not before.game_over[0]
        assert (step.pressed is not None) == new_life
        if new_life:
            assert step.pressed.tolist() == [FIRE]


def test_fire_is_pressed_only_in_the_row_that_lost_a_life() -> None:
    vector = AtariVector("Breakout", 3, seed=0, new_life=FIRES)
    vector.reset()
    rng, lost, pressed = np.random.default_rng(0), np.zeros(3, bool), 0
    for actions in rng.integers(2, 4, size=(400, 3)):
        step = vector.step(actions)
        expected = np.where(lost, FIRE, actions)
        assert (expected == (actions if step.pressed is None else step.pressed)).all()
        pressed += lost.sum()
        lost = step.terminated & ~step.game_over
    assert pressed > 3


def test_no_ops_before_fire_are_up_to_seven_decisions() -> None:
    vector = AtariVector("Breakout", 1, seed=0, new_life=NewLife(fire=True, noops=True))
    vector.reset()
    waits, forced = [], None
    for _ in range(1_500):
        step = vector.step(np.array([2]))
        if step.pressed is not None and forced is not None:
            forced.append(int(step.pressed[0]))
            if forced[-1] == FIRE:
                assert forced[:-1] == [0] * (len(forced) - 1)
                waits.append(len(forced) - 1)
                forced = None
        elif forced:
            raise AssertionError("the agent's own action before FIRE")
        if step.terminated[0] and not step.game_over[0]:
            forced = []
    assert len(waits) > 20
    assert set(waits) <= set(range(8))
    assert len(set(waits)) > 4


@pytest.mark.parametrize("noops", [False, True])
def test_a_run_resumed_just_after_a_life_loss_fires_too(noops) -> None:
    vector, again = (
        AtariVector("Breakout", 1, seed=seed, new_life=NewLife(fire=True, noops=noops))
        for seed in (0, 9)
    )
    vector.reset()
    while not vector.step(NO_OP).terminated[0]:
        pass
    state = vector.state()
    assert again.load_state(state) is not None
    for _ in range(30):
        ours, theirs = vector.step(NO_OP), again.step(NO_OP)
        assert (ours.obs == theirs.obs).all()
        assert (ours.pressed is None) == (theirs.pressed is None)


def test_gopher_hears_no_press_in_the_first_thirty_decisions_after_a_life_loss() -> None:
    """Neither ours nor those of CleanRL's wrapper (no-op, FIRE, up): the agent must press later."""

    def goes_on(presses: list[int]) -> bool:
        vector = AtariVector("Gopher", 1, seed=0)
        vector.reset()
        while not vector.step(NO_OP).terminated[0]:
            pass
        for action in presses:
            vector.step(np.array([action]))
        return not stands_still([vector.step(NO_OP) for _ in range(60)])

    assert not goes_on([FIRE])
    assert not goes_on([0, FIRE, 2])
    assert goes_on([0] * 40 + [FIRE])
