import json
from typing import Any

import numpy as np
import pytest

from bnmodes.envs.contract import Step, VectorEnv
from bnmodes.envs.registry import (
    SUITES,
    canonical_name,
    env_spec,
    env_suite,
    list_envs,
    make_env,
    tells_life_losses,
)
from bnmodes.errors import UsageError

RESUMABLE = [
    f"{suite}/{game}" for suite in ("minatar", "probe") for game in SUITES[suite].list_games()
]
RESUMABLE += ["gymnasium/CartPole-v1", "gymnasium/Acrobot-v1"]


def through_json_and_arrays(tree: Any) -> Any:
    arrays: list[np.ndarray] = []

    def set_aside(leaf: Any) -> dict[str, int]:
        assert isinstance(leaf, np.ndarray)
        arrays.append(leaf.copy())
        return {"array": len(arrays) - 1}

    text = json.dumps(tree, default=set_aside)
    return json.loads(text, object_hook=lambda d: arrays[d["array"]] if "array" in d else d)


def play(vector: VectorEnv, decisions: int, seed: int) -> list[Step]:
    shape = (decisions, vector.num_envs)
    actions = np.random.default_rng(seed).integers(vector.spec.num_actions, size=shape)
    return [vector.step(row) for row in actions]


@pytest.mark.parametrize("name", RESUMABLE)
def test_a_loaded_state_goes_on_bit_by_bit(name: str) -> None:
    vector = make_env(name, num_envs=3, seed=0)
    vector.reset()
    at_save = play(vector, 137, seed=1)[-1]
    state = vector.state()
    expected = play(vector, 800, seed=2)

    resumed = make_env(name, num_envs=3, seed=99)
    resumed.reset()
    play(resumed, 20, seed=3)
    state = through_json_and_arrays(state)
    for _ in range(2):  # the second time tells whether playing on had changed the state
        np.testing.assert_array_equal(resumed.load_state(state), at_save.obs)
        for ours, theirs in zip(play(resumed, 800, seed=2), expected, strict=True):
            for field, value in vars(theirs).items():
                np.testing.assert_array_equal(getattr(ours, field), value)


@pytest.mark.parametrize(
    ("name", "canonical", "suite"),
    [
        ("minatar/Space_Invaders", "minatar/space_invaders", "minatar"),
        ("atari/mspacman", "atari/MsPacman", "atari"),
        ("Atari-Small/pong", "atari-small/Pong", "atari-small"),
        ("probe/chain", "probe/chain", "probe"),
    ],
)
def test_names_are_found_in_any_case(name: str, canonical: str, suite: str) -> None:
    vector = make_env(name, num_envs=2, seed=0)
    assert vector.spec.name == canonical
    assert env_suite(name) == suite == vector.spec.suite
    obs = vector.reset()
    assert obs.shape == (2, *vector.spec.obs_shape)
    listing = next(listing for listing in list_envs() if listing.name == canonical)
    assert listing.observation == "×".join(map(str, vector.spec.obs_shape))
    assert env_spec(name) == vector.spec
    assert listing.num_actions in (None, vector.spec.num_actions)


def test_a_sticky_name_is_a_setting_of_the_suite() -> None:
    assert env_suite("atari/pong-STICKY") == "atari"
    assert canonical_name("atari-small/pong-sticky") == "atari-small/Pong-sticky"
    assert tells_life_losses("atari-small/Pong")
    assert not tells_life_losses("atari-small/Pong-sticky")
    assert canonical_name("atari/pong-STICKY") == "atari/Pong-sticky"
    with pytest.raises(UsageError, match="no environment"):
        canonical_name("minatar/breakout-sticky")


def test_list_has_every_name_once() -> None:
    names = [listing.name for listing in list_envs()]
    assert len(names) == len(set(names))
    assert names[-2:] == ["gymnasium/ID", "FILE.py:NAME"]
    assert {"minatar/seaquest", "atari/UpNDown", "probe/truncation"} <= set(names)
    assert not {"atari/Combat", "atari/Joust"} & set(names)


@pytest.mark.parametrize(
    ("name", "suggestion"), [("minatar/braekout", "minatar/breakout"), ("pong", "atari/Pong")]
)
def test_unknown_name_suggests_the_nearest(name: str, suggestion: str) -> None:
    with pytest.raises(UsageError, match=rf"{name}.*{suggestion}.*bnmodes env list"):
        make_env(name, num_envs=1, seed=0)
    with pytest.raises(UsageError, match="bnmodes env list"):
        env_suite(name)


@pytest.mark.parametrize("name", ["CartPole-v1", "nope"])
def test_a_name_without_a_suite_is_told_how_gymnasiums_games_are_written(name: str) -> None:
    with pytest.raises(UsageError, match="written gymnasium/NAME"):
        env_suite(name)


def test_no_environments_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 1"):
        make_env("probe/chain", num_envs=0, seed=0)
