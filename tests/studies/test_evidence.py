"""The studies that ask where batch statistics matter, and why: what each varies, and what not."""

from dataclasses import replace

import pytest

from bnmodes.agents.registry import AGENTS
from bnmodes.analysis.scores import _human_score, has_human_scores
from bnmodes.envs.registry import env_spec
from bnmodes.runs.spec import make_spec
from bnmodes.studies import evidence, paper
from bnmodes.studies.evidence import (
    PONG_SHORT,
    SCREEN_C51,
    SLOW_C51,
    SMALL_A,
    SMALL_A_SHORT,
    WHY_C51,
    WHY_C51_PAPER,
    WHY_C51_SMALL,
    WHY_PQN,
)
from bnmodes.studies.registry import STUDIES
from bnmodes.studies.schedule import in_order


def settings_of(study):
    return {arm.name: arm.settings(study.games[0]) for arm in study.arms}


def test_the_screen_changes_one_setting_at_a_time_for_both_statistics():
    found = settings_of(SCREEN_C51)
    screened = set()
    for contrast in SCREEN_C51.contrasts:
        batch, running = found[contrast.arm], found[contrast.other]
        assert batch.protocol.bootstrap.statistics == "batch"
        assert running.protocol.bootstrap.statistics == "running"
        factors = [
            (s.batch_size, s.protocol.predict.update, s.learning_rate, s.torso)
            for s in (batch, running)
        ]
        assert factors[0] == factors[1]
        screened.add(factors[0])
    baseline = (32, 0.01, 2.5e-4, "minatar")
    assert baseline in screened
    assert all(sum(a != b for a, b in zip(one, baseline, strict=True)) <= 1 for one in screened)
    by_factor = [set(values) for values in zip(*screened, strict=True)]
    assert by_factor == [
        {4, 8, 32},
        {0.1, 0.01, 0.001},
        {2.5e-4, 1e-3},
        {"minatar", "minatar-deep"},
    ]
    assert {settings.updates_per_decision for settings in found.values()} == {1.0}
    assert len(SCREEN_C51.grid) == 10


def test_the_first_seed_of_every_arm_of_the_screen_comes_before_the_second():
    half = len(SCREEN_C51.runs) // 2
    ordered = in_order(SCREEN_C51)
    assert {run.seed for run in ordered[:half]} == {0}
    assert {run.arm for run in ordered[:half]} == {arm.name for arm in SCREEN_C51.arms}


@pytest.mark.parametrize(
    ("study", "minibatch"), [(WHY_C51, 4), (WHY_C51_PAPER, 32), (WHY_C51_SMALL, 32)]
)
def test_the_arms_that_explain_c51_differ_in_their_forwards_only(study, minibatch):
    found = settings_of(study)
    assert {s.batch_size for s in found.values()} == {minibatch}
    batchnorm = {name: s for name, s in found.items() if s.norm.kind == "bn"}
    sources = {
        name: (
            s.protocol.bootstrap.statistics,
            s.protocol.bootstrap.moments,
            s.protocol.bootstrap.population,
            s.calibrate_target,
        )
        for name, s in batchnorm.items()
    }
    own = "replay-next-obs"
    assert sources == {
        "BN running": ("running", "own", own, False),
        "BN running calibrated": ("running", "own", own, True),
        "BN batch": ("batch", "own", own, False),
        "BN joined": ("batch", "own", "joined", False),
        "BN pool": ("batch", "pool", own, False),
        "BN independent": ("batch", "independent", own, False),
        "BN partner": ("batch", "partner", own, False),
    }
    one = found["BN running"]
    for settings in batchnorm.values():
        same = {"protocol": one.protocol, "calibrate_target": False, "pool_rows": one.pool_rows}
        assert replace(settings, **same) == one
        assert settings.protocol.predict.update == one.protocol.predict.update
        assert (settings.protocol.act, settings.protocol.evaluate) == (
            one.protocol.act,
            one.protocol.evaluate,
        )
    assert found["BN pool"].pool_rows >= 8 * minibatch
    assert {s.norm.kind for s in found.values()} == {"bn", "ln", "none"}


def test_slow_statistics_are_asked_of_in_the_screens_setting():
    slow, screened = settings_of(SLOW_C51), settings_of(SCREEN_C51)
    for name, settings in slow.items():
        assert settings == screened[f"{name}, online α 0.001"]


@pytest.mark.parametrize("study", [WHY_C51, WHY_C51_PAPER, SLOW_C51, WHY_C51_SMALL, WHY_PQN])
def test_what_a_screen_suggested_is_asked_with_new_seeds_and_more_of_them(study):
    assert len(study.seeds) >= 5
    assert not {*study.seeds} & {*SCREEN_C51.seeds, *SMALL_A_SHORT.seeds}
    assert all(contrast.claim for contrast in study.contrasts)


def test_the_arms_that_explain_pqn_act_alike_but_for_running():
    found = settings_of(WHY_PQN)
    acting = {n: s.protocol.act.statistics for n, s in found.items() if s.norm.kind == "bn"}
    assert {name for name, statistics in acting.items() if statistics != "batch"} == {"BN running"}
    updates = {s.protocol.predict.update for s in found.values() if s.norm.kind == "bn"}
    assert updates == {0.001}, "Flax's momentum 0.999"


def test_the_short_pong_study_is_the_first_fifth_of_study_c():
    whole = {arm.name: arm.settings("atari/Pong") for arm in paper.C.arms}
    assert PONG_SHORT.total_decisions * 5 == paper.C.total_decisions
    for name, settings in settings_of(PONG_SHORT).items():
        long = whole[name]
        assert settings.epsilon_decay_fraction == pytest.approx(5 * long.epsilon_decay_fraction)
        assert (settings.protocol, settings.norm) == (long.protocol, long.norm)
    ordered = [run.arm for run in in_order(PONG_SHORT)]
    assert ordered[:2] == ["BN running 0.99", "BN batch"]


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_a_study_of_the_package_is_named_by_its_own_name(study):
    assert study.source == study.name


def test_every_study_of_evidence_measures_inside_the_networks():
    assert all(run.spec.diagnostics.points for study in evidence.STUDIES for run in study.runs)


def test_small_a_is_study_a_but_for_pixels_and_network():
    for arm in SMALL_A.arms:
        small, large = arm.settings(SMALL_A.games[0]), paper.A.arm(arm.name).settings("atari/Pong")
        assert replace(small, torso="nature") == large
        assert small.torso == "nature-small"
    for field in ("total_decisions", "record_every_decisions", "evaluation", "seeds", "reference"):
        assert getattr(SMALL_A, field) == getattr(paper.A, field)
    assert {(each.arm, each.other) for each in SMALL_A.contrasts} == {
        ("BN batch", "BN running"),
        ("BN tracked 0.1", "BN running"),
        ("BN batch", "LN"),
    }
    assert env_spec(SMALL_A.games[0]).frame_shape == (1, 42, 42)
    assert [run.arm for run in in_order(SMALL_A)][:2] == ["BN running", "BN batch"]


def test_the_short_small_a_is_its_first_fifth_evaluated_more_often():
    whole, short = settings_of(SMALL_A), settings_of(SMALL_A_SHORT)
    assert SMALL_A_SHORT.total_decisions * 5 == SMALL_A.total_decisions
    for name, settings in short.items():
        decay = 5 * whole[name].epsilon_decay_fraction
        assert settings == replace(whole[name], epsilon_decay_fraction=decay)
    assert len(SMALL_A_SHORT.grid) == 10
    for field in ("games", "seeds", "reference", "contrasts"):
        assert getattr(SMALL_A_SHORT, field) == getattr(SMALL_A, field)


@pytest.mark.parametrize("arm", ["BN running", "BN batch", "C51", "LN"])
def test_what_explains_small_a_is_its_first_tenth(arm):
    whole, first = settings_of(SMALL_A)[arm], settings_of(WHY_C51_SMALL)[arm]
    assert WHY_C51_SMALL.total_decisions * 10 == SMALL_A.total_decisions
    assert first == replace(whole, epsilon_decay_fraction=10 * whole.epsilon_decay_fraction)


@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_has_atari_settings_with_a_smaller_network_on_small_screens(agent):
    small, large = (make_spec(agent, f"{suite}/Pong", seed=3) for suite in ("atari-small", "atari"))
    settings = replace(small.settings, torso=large.settings.torso)
    assert replace(small, env=large.env, settings=settings) == large
    assert small.settings.torso == "nature-small"


def test_returns_on_small_screens_are_human_normalised_as_on_large_ones():
    assert has_human_scores(SMALL_A.games)
    assert _human_score("atari-small/Pong-sticky", "wang2016") == _human_score(
        "atari/Pong", "wang2016"
    )
