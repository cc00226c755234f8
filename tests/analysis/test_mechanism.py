"""What was measured inside the networks, from planted diagnostics."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bnmodes.analysis import mechanism
from bnmodes.analysis.arms import reading_roles
from bnmodes.analysis.figures.mismatch import draw_mismatch
from bnmodes.analysis.figures.representation import draw_representation, representation_caption
from bnmodes.analysis.findings import summary
from bnmodes.analysis.statistics import Band
from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.studies import paper
from bnmodes.studies.quick import QUICK, QUICK_ACTOR_CRITICS
from helpers.synthetic import _rows, minatar_study, synthetic_results

GRID = np.array([40_000, 200_000, 400_000])
# Share of greedy actions that stored moments change, whoever acts or bootstraps with them.
CHANGED = {
    "BN running 0.999": 0.6,
    "BN running 0.99": 0.1,
    "BN batch at bootstrap only 0.999": 0.4,
    "BN batch at acting only 0.999": 0.3,
    "BN batch": 0.9,
}
METRICS = {
    "act/greedy_changed": 1.0,
    "bootstrap/greedy_changed": 0.5,
    "predict/greedy_changed": 0.0,
    **{f"{role}/conv1/mean_shift": 2.0 for role in mechanism.VALUE_ROLES},
    **{f"{role}/dense/mean_shift": 4.0 for role in mechanism.VALUE_ROLES},
    **{f"{role}/dense/mean_shift_floor": 0.1 for role in mechanism.VALUE_ROLES},
    "dormant_0.025": 0.5,
    "one_batch_effective_rank": 60.0,
    "one_batch_srank": 80.0,
    "effective_rank": 60.0,
    "srank": 80.0,
}


def planted(study=QUICK, level=lambda arm: 1 - CHANGED.get(arm.name, 0.5) / 2, **options):
    results = synthetic_results(study, level=level, noise=0.01, **options)
    missing = set(results.missing)
    frames = [results.frame]
    for metric, factor in METRICS.items():
        runs = [run for run in study.runs if run not in missing]
        if "/" in metric:
            runs = [run for run in runs if run.arm in CHANGED]
        values = np.array([[CHANGED.get(run.arm, 0.5) * factor] * 3 for run in runs])
        frames.append(_rows(study, runs, f"diagnostics/{metric}", GRID, values))
    return replace(results, table=pl.concat(frames).lazy())


@pytest.fixture(scope="module")
def numbers():
    return StudyNumbers(planted(), resamples=50)


def test_a_quantity_of_a_role_is_the_mean_over_its_layers(numbers):
    arm = QUICK.arm("BN running 0.99")
    found = mechanism.shift(numbers, arm, "act")
    assert found.decisions == tuple(GRID)
    np.testing.assert_allclose(found.values, 0.3)  # of 0.2 and 0.4
    np.testing.assert_allclose(mechanism.shift(numbers, arm, "act", floor=True).values, 0.01)
    assert mechanism.shift(numbers, QUICK.arm("LN"), "act") is None


def test_exposure_counts_only_the_roles_that_read_stored_moments(numbers):
    def of(name):
        values = mechanism.exposure(numbers, QUICK.arm(name))
        assert values.shape == (2, 3)
        return values.mean()

    assert of("BN running 0.999") == pytest.approx(0.6 * (1 + 0.5) / 2)
    assert of("BN batch at bootstrap only 0.999") == pytest.approx(0.4), (
        "it acts with stored moments"
    )
    assert of("BN batch at acting only 0.999") == pytest.approx(0.15), "it bootstraps with them"
    assert of("BN batch") == 0, "however much they would change"


def test_the_summary_says_whether_exposure_orders_the_scores(numbers):
    said = " ".join(summary(numbers))
    assert "BN running 0.999 45%" in said
    assert "In BN batch none of these roles reads them: a share of 0." in said
    assert "BN batch 0%" not in said, "the figure shows what they would change in it"
    # BN batch was planted lowest though it is not exposed, so the order is weak.
    assert "that share does not order the scores" in said
    ordered = StudyNumbers(
        planted(
            level=lambda arm: 0.4 if arm.base == "bn-batch" else 0.4 - CHANGED.get(arm.name, 0) / 2
        ),
        resamples=50,
    )
    assert "a run has a lower score the larger that share is" in " ".join(
        mechanism.sentences(ordered)
    )


def test_a_study_without_diagnostics_says_and_draws_nothing_of_them():
    numbers = StudyNumbers(synthetic_results(minatar_study()), resamples=50)
    assert mechanism.sentences(numbers) == []
    assert draw_mismatch(numbers) is None
    assert draw_representation(numbers) is None


def test_a_run_without_diagnostics_is_left_out_of_the_curves():
    results = planted(is_missing=lambda run: run.seed == 2)
    numbers = StudyNumbers(results, allow_missing=True, resamples=50)
    found = mechanism.measured(numbers, QUICK.arm("LN"), mechanism.RANK)
    assert np.isnan(found.values[:, 2]).all()
    np.testing.assert_allclose(found.mean.point, 30)


def test_a_run_that_diverged_does_not_cut_the_curves_of_its_arm():
    results = planted()
    run = next(run for run in QUICK.runs if run.arm == "BN running 0.999")
    ended = (pl.col("arm") == run.arm) & (pl.col("game") == run.game) & (pl.col("seed") == run.seed)
    table = results.table.filter(~(ended & (pl.col("decision") > 100_000)))
    numbers = StudyNumbers(replace(results, table=table, diverged={run: 100_000}), resamples=50)
    found = mechanism.shift(numbers, QUICK.arm(run.arm), "act")
    assert found.decisions == tuple(GRID)
    assert np.isnan(found.values).all(-1).sum() == 1
    assert "Without 1 run that diverged." in mechanism.sentences(numbers)[0]
    assert representation_caption(numbers).endswith("Without 1 run that diverged.")


def test_the_interval_of_a_rank_is_not_below_0(numbers):
    assert mechanism.measured(numbers, QUICK.arm("LN"), mechanism.RANK).least == 0


def test_the_mismatch_figure_shows_every_batchnorm_arm_and_the_noise_floor(numbers):
    figure = draw_mismatch(numbers)
    titles = [axes.get_title("left") for axes in figure.axes]
    assert titles[:4] == ["Score", *(f"{role}: mean shift (σ)" for role in mechanism.VALUE_ROLES)]
    top, bottom = figure.axes[3], figure.axes[7]
    curves = {line.get_label(): line for line in top.lines if line.get_label()[0] != "_"}
    assert list(curves) == list(CHANGED)
    np.testing.assert_allclose(curves["BN batch"].get_ydata(), 0.9 * 3)
    floors = [line for line in top.lines if line.get_linestyle() == ":" and line.get_lw() == 1]
    np.testing.assert_allclose(
        [line.get_ydata()[0] for line in floors], np.array([*CHANGED.values()]) / 10
    )
    changed = {line.get_label(): line.get_ydata() for line in bottom.lines}
    np.testing.assert_allclose(changed["BN running 0.999"], 0.6)


def test_an_actor_critic_has_a_second_band_of_policy_roles_and_halves():
    """A critic chooses no action: what stored moments change in it is its values."""
    study = QUICK_ACTOR_CRITICS
    policies = ("act", "improve", "bootstrap_actor")
    critics = ("predict", "bootstrap", "improve_critic")
    metrics = {f"{role}/greedy_changed": 0.2 for role in policies}
    metrics |= {f"{role}/q_change": 0.5 for role in critics}
    metrics |= {f"{role}/dense/mean_shift": 3.0 for role in (*policies, *critics)}
    metrics |= {"halves/dense/mean_shift": 0.4, "halves/dense/mean_shift_floor": 0.1}
    results = synthetic_results(study, level=lambda arm: 0.5, noise=0.01)
    frames = [results.frame]
    runs = [run for run in study.runs if study.arm(run.arm).agent == "xqc"]
    for metric, value in metrics.items():
        values = np.full((len(runs), 2), value)
        frames.append(
            _rows(study, runs, f"diagnostics/{metric}", np.array([10_000, 20_000]), values)
        )
    numbers = StudyNumbers(replace(results, table=pl.concat(frames).lazy()), resamples=50)
    panels = {axes.get_title("left"): axes for axes in draw_mismatch(numbers).axes}
    assert {f"{role}: greedy actions changed" for role in policies} <= set(panels)
    assert {f"{role}: mean |change of Q|" for role in critics} <= set(panels)
    halves = panels["(s, a) against (s′, a′): mean shift (σ)"]
    drawn = {line.get_label(): line.get_ydata()[0] for line in halves.lines}
    assert drawn["XQC running"] == pytest.approx(0.4)
    assert reading_roles(study.arm("XQC"), study.games[0]) == ["act", "bootstrap_actor"]
    np.testing.assert_allclose(mechanism.exposure(numbers, study.arm("XQC running")), 0.2)
    (shares,) = mechanism.sentences(numbers)
    assert "XQC running 20%" in shares


def test_the_representation_figure_has_three_panels_for_each_utd(numbers):
    figure = draw_representation(numbers)
    assert len(figure.axes) == 3
    lines = {line.get_label(): line.get_ydata() for line in figure.axes[1].lines}
    np.testing.assert_allclose(lines["BN running 0.999"], 36)
    assert set(lines) == {arm.name for arm in QUICK.arms}


def test_study_e_is_made_of_runs_of_b_and_d():
    def hashes(study):
        return {run.spec.content_hash for run in study.runs}

    assert hashes(paper.E_C51) < hashes(paper.B)
    assert {run.spec.settings.updates_per_decision for run in paper.E_C51.runs} == {4.0}
    assert hashes(paper.E_PQN) < hashes(paper.D)
    assert len(paper.E_PQN.arms) == 4
    assert all(run.spec.diagnostics.points > 0 for run in paper.E_C51.runs)


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=2, max_size=12))
def test_rank_correlation_is_that_of_mean_ranks(pairs):
    def ranks(values):
        ordered = sorted(values)
        places = {v: [i for i, other in enumerate(ordered) if other == v] for v in values}
        return [sum(places[v]) / len(places[v]) for v in values]

    a, b = ([pair[side] for pair in pairs] for side in (0, 1))
    found = mechanism.rank_correlation(np.array(a, float), np.array(b, float))
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert np.isnan(found)
    else:
        assert found == pytest.approx(np.corrcoef(ranks(a), ranks(b))[0, 1])


def test_the_interval_of_a_share_stays_between_0_and_1():
    values = np.array([[[0.0], [0.9], [1.0]]])

    def wide(values, statistic):
        point = statistic(np.moveaxis(values, -1, 0))
        return Band(point, point - 2, point + 2)

    share = mechanism.Measured((1,), values, wide, 0.0, 1.0).mean
    assert (share.low, share.high) == (0.0, 1.0)
    shift = mechanism.Measured((1,), values, wide).mean
    assert shift.low < 0
