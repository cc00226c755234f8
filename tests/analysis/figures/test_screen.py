"""The figures of a screen and of the mean max-Q, on made-up results with a planted gap."""

from dataclasses import replace
from html import unescape

import numpy as np
import polars as pl
import pytest

from bnmodes.analysis.figures.dose_response import draw_dose_response, gap_panel
from bnmodes.analysis.figures.figure import draw_all
from bnmodes.analysis.figures.max_q import draw_max_q
from bnmodes.analysis.figures.style import new_figure
from bnmodes.analysis.report.sections import contrasts_section
from bnmodes.analysis.resampling import paired_difference
from bnmodes.analysis.screened import screen_of
from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.studies import paper
from bnmodes.studies.evidence import SCREEN_C51, WHY_C51, WHY_PQN
from bnmodes.studies.study import Arm, Contrast
from helpers.synthetic import synthetic_results, with_bootstrap_diagnostics


def level(arm):
    """A gap that only small minibatches open."""
    size = arm.changes.get("batch_size", 32)
    return 0.5 + (32 - size) / 100 * arm.base.endswith("batch")


@pytest.fixture(scope="module")
def numbers():
    results = with_bootstrap_diagnostics(synthetic_results(SCREEN_C51, level=level, noise=0.02))
    return StudyNumbers(results, resamples=50)


def test_a_screen_is_found_in_the_declared_contrasts():
    screen = screen_of(SCREEN_C51)
    assert (screen.arm.name, screen.other.name) == ("BN batch", "BN running")
    found = {f.name: [level.value for level in f.levels] for f in screen.factors}
    assert found == {
        "batch_size": [4, 8, 32],
        "protocol.predict.update": [0.001, 0.01, 0.1],
        "learning_rate": [2.5e-4, 1e-3],
        "torso": ["minatar", "minatar-deep"],
    }
    for factor in screen.factors:
        assert screen.arm in [level.arm for level in factor.levels], "the baseline is in each"
        for one in factor.levels:
            assert one.arm.changes == one.other.changes


@pytest.mark.parametrize("study", [paper.A, paper.B, WHY_C51, WHY_PQN])
def test_other_studies_are_no_screens(study):
    assert screen_of(study) is None


def test_the_same_two_arms_of_two_agents_are_no_screen():
    arms = tuple(
        Arm(f"{agent} {statistics}", f"bn-{statistics}", agent)
        for agent in ("c51", "pqn")
        for statistics in ("batch", "running")
    )
    contrasts = tuple(Contrast(f"{agent} batch", f"{agent} running") for agent in ("c51", "pqn"))
    study = replace(SCREEN_C51, arms=arms, contrasts=contrasts, reference="c51 running")
    assert screen_of(study) is None
    assert screen_of(replace(study, contrasts=contrasts[:1])) is None


def test_a_pair_two_changes_away_is_no_screen():
    twice = {"batch_size": 4, "torso": "minatar-deep"}
    arms = tuple(
        replace(arm, changes=dict(arm.changes) | twice) if arm.name.endswith("layers") else arm
        for arm in SCREEN_C51.arms
    )
    assert screen_of(replace(SCREEN_C51, arms=arms)) is None


def test_the_gap_is_the_difference_of_the_two_arms_at_each_level(numbers):
    screen = screen_of(SCREEN_C51)
    axes = new_figure(2.0, 2.0).subplots()
    gap_panel(axes, numbers, screen.factors[0])
    drawn = [np.asarray(line.get_ydata(), float) for line in axes.lines]
    for place, one in enumerate(screen.factors[0].levels):
        arm, other = (numbers.values(each, "auc") for each in (one.arm, one.other))
        for game in range(3):
            assert drawn[game][place] == pytest.approx((arm - other)[game].mean())
        pooled = paired_difference(arm, other, resamples=50).point
        assert any(np.isclose(line[place], pooled) for line in drawn[3:] if len(line) == 3)
    assert drawn[0][0] > drawn[0][1] > drawn[0][2]


def test_the_screen_shows_its_factors_and_what_was_measured(numbers):
    figure = draw_dose_response(numbers, screen_of(SCREEN_C51))
    assert len(figure.axes) == 4 * 4
    labels = [axes.get_ylabel() for axes in figure.axes if axes.get_ylabel()]
    assert labels == ["AUC gap", "mean shift (σ)", "greedy actions changed", "mean max-Q"]
    ticks = [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    assert ticks == ["4", "8", "32"]
    assert {"dose-response", "max-q"} <= {drawing.name for drawing in draw_all(numbers)}


def test_the_report_says_what_each_contrast_tests(numbers):
    page = unescape(contrasts_section(numbers))
    for contrast in SCREEN_C51.contrasts:
        assert f"{contrast.arm} − {contrast.other}: {contrast.claim}" in page


@pytest.mark.parametrize("arms", [2, 6])
@pytest.mark.parametrize(("factor", "scale"), [(1.0, "linear"), (40.0, "symlog")])
def test_an_arm_whose_max_q_runs_away_does_not_hide_the_others(factor, scale, arms):
    study = WHY_PQN.restricted(arms=[arm.name for arm in WHY_PQN.arms[:arms]])
    results = with_bootstrap_diagnostics(synthetic_results(study, level=lambda arm: 0.5))
    runs_away = pl.col("metric").str.ends_with("max_q") & (pl.col("arm") == WHY_PQN.arms[0].name)
    value = pl.when(runs_away).then(factor * pl.col("value")).otherwise(pl.col("value"))
    results = replace(results, table=results.frame.with_columns(value=value).lazy())
    figure = draw_max_q(StudyNumbers(results, resamples=20))
    for axes in figure.axes:
        assert axes.get_yscale() == scale
        away, other = (axes.lines[place].get_ydata()[-1] for place in (0, 1))
        bottom, top = axes.get_ylim()
        assert bottom <= 0
        assert top > away
        height = axes.transData.transform([(0, 0), (0, other), (0, top)])[:, 1]
        assert (height[1] - height[0]) / (height[2] - height[0]) > 0.3


@pytest.mark.parametrize("study", [WHY_C51, WHY_PQN])
def test_max_q_of_every_arm_is_drawn_for_each_game(study):
    results = with_bootstrap_diagnostics(synthetic_results(study, level=lambda arm: 0.5))
    numbers = StudyNumbers(results, resamples=20)
    figure = draw_max_q(numbers)
    assert len(figure.axes) == len(study.games)
    assert {len(axes.lines) for axes in figure.axes} == {len(study.arms)}
    colours = [line.get_color() for line in figure.axes[0].lines]
    assert len(set(colours)) == len(study.arms)
    rows = results.frame.filter(
        (pl.col("metric") == "diagnostics/bootstrap/max_q") & (pl.col("arm") == study.arms[1].name)
    )
    first = rows.filter(pl.col("game") == study.games[0])
    expected = first.group_by("decision").agg(pl.col("value").mean()).sort("decision")["value"]
    np.testing.assert_allclose(figure.axes[0].lines[1].get_ydata(), expected, rtol=1e-6)
