from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from bnmodes.analysis.scores import (
    Scores,
    auc,
    collect,
    final,
    human_normalised,
    judge_diverged,
    reference_normalised,
)
from bnmodes.analysis.study_numbers import MEASURES, StudyNumbers
from bnmodes.errors import UsageError
from bnmodes.runs.spec import EvaluationSettings
from bnmodes.studies.registry import STUDIES
from bnmodes.studies.results import SCHEMA, StudyResults
from bnmodes.studies.study import Arm, Study
from helpers.synthetic import minatar_study, synthetic_results

ATARI = ("atari/Pong", "atari/Boxing")
MINATAR = ("minatar/breakout", "minatar/asterix")
PAPER_GRID = (*range(100_000, 1_200_001, 100_000), 1_250_000)


def make_study(games, seeds=(0, 1, 7), total_decisions=1_250_000):
    return Study(
        name="test",
        question="?",
        arms=(Arm("none", "none"), Arm("BN batch", "bn-batch")),
        games=games,
        seeds=seeds,
        total_decisions=total_decisions,
        record_every_decisions=10_000,
        evaluation=EvaluationSettings(every_decisions=100_000),
        reference="none",
    )


def value(arm, game, seed, decision):
    """A number that tells where it belongs."""
    return 100.0 * (arm != "none") + 10.0 * len(game) + seed + decision / 1e7


def make_results(study, missing=(), value=value, without=None):
    """Rows in an order of their own, with other metrics among them."""
    rows, lacking = [], []
    for run in study.runs:
        key = (run.arm, run.game, run.seed)
        if key in missing:
            lacking.append(run)
            continue
        for decision in study.evaluation.grid(study.total_decisions):
            if (*key, decision) == without:
                continue
            number = value(*key, decision)
            for metric, x in (("evaluation/return", number), ("train/return", -1e6)):
                rows.append((study.name, *key, metric, decision, 4 * decision, x))
    np.random.default_rng(0).shuffle(rows)
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    return StudyResults(study, frame.lazy(), tuple(lacking), Path("nowhere"))


def make_scores(values, games=MINATAR, decisions=None):
    values = np.asarray(values, dtype=float)
    decisions = decisions or tuple(100 * (t + 1) for t in range(values.shape[2]))
    return Scores(games, tuple(range(values.shape[1])), decisions, values, "raw return")


def test_each_return_lands_at_its_game_seed_and_time():
    scores = collect(make_results(make_study(MINATAR)), "BN batch")
    assert (scores.games, scores.seeds, scores.decisions) == (MINATAR, (0, 1, 7), PAPER_GRID)
    assert scores.unit == "raw return"
    for g, game in enumerate(MINATAR):
        for s, seed in enumerate((0, 1, 7)):
            for t, decision in enumerate(PAPER_GRID):
                assert scores.values[g, s, t] == value("BN batch", game, seed, decision)


def test_missing_runs_are_an_error_that_lists_them():
    gone = [("BN batch", "minatar/asterix", 7), ("BN batch", "minatar/breakout", 0)]
    results = make_results(make_study(MINATAR), missing=gone)
    with pytest.raises(UsageError, match="--allow-missing") as error:
        collect(results, "BN batch")
    assert "2 runs of arm 'BN batch' missing" in str(error.value)
    for arm, game, seed in gone:
        assert f"{arm} on {game}, seed {seed}" in str(error.value)
    assert "more" not in str(error.value)
    assert not np.isnan(collect(results, "none").values).any()  # the other arm is whole


def test_of_many_missing_runs_the_first_are_listed_and_the_others_counted():
    study = make_study(MINATAR, seeds=tuple(range(10)))
    gone = [("none", "minatar/breakout", seed) for seed in range(9)]
    with pytest.raises(UsageError) as error:
        collect(make_results(study, missing=gone), "none")
    assert str(error.value).count("none on") == 5
    assert "seed 4; and 4 more)" in str(error.value)


def test_allowed_missing_runs_are_nan_and_nothing_else_is():
    gone = [("none", "minatar/asterix", 1)]
    scores = collect(make_results(make_study(MINATAR), gone), "none", allow_missing=True)
    expected = np.zeros((2, 3), dtype=bool)
    expected[1, 1] = True
    np.testing.assert_array_equal(np.isnan(scores.values).all(-1), expected)
    np.testing.assert_array_equal(np.isnan(scores.values).any(-1), expected)


@pytest.mark.parametrize("allow_missing", [False, True])
def test_a_finished_run_without_one_of_its_evaluations_is_an_error(allow_missing):
    lost = ("none", "minatar/asterix", 1, 300_000)
    results = make_results(make_study(MINATAR), without=lost)
    with pytest.raises(UsageError, match=r"minatar/asterix, seed 1 .* decision 300000"):
        collect(results, "none", allow_missing=allow_missing)


def test_an_unknown_arm_is_an_error_that_names_the_known_ones():
    with pytest.raises(UsageError, match="none, BN batch"):
        collect(make_results(make_study(MINATAR)), "bn")


def test_games_are_found_in_the_spelling_of_the_results():
    study = make_study(("atari/pong",))
    results = make_results(study)
    results = StudyResults(
        study, results.table.with_columns(game=pl.lit("atari/Pong")), (), Path("nowhere")
    )
    assert collect(results, "none").games == ("atari/Pong",)


@pytest.mark.parametrize(
    ("table", "pong", "boxing"), [("wang2016", 14.6, 12.1), ("mnih2015", 9.3, 4.3)]
)
def test_human_normalised_scores_use_the_named_table(table, pong, boxing):
    raw = make_scores([[[-20.7, pong, 21.0]], [[0.1, boxing, -5.0]]], games=ATARI)
    scores = human_normalised(raw, table)
    assert scores.unit == f"human-normalised score ({table})"
    expected = [
        [[0.0, 1.0, (21.0 + 20.7) / (pong + 20.7)]],
        [[0.0, 1.0, (-5.0 - 0.1) / (boxing - 0.1)]],
    ]
    np.testing.assert_allclose(scores.values, expected, atol=1e-12)


def test_all_26_games_have_human_scores_in_both_tables():
    table = pl.read_csv(Path(__file__).parents[2] / "src/bnmodes/analysis/human_scores.csv")
    games = tuple(table["game"])
    assert len(games) == 26
    for name in ("wang2016", "mnih2015"):
        scores = human_normalised(make_scores(np.ones((26, 1, 1)), games), name)
        assert np.isfinite(scores.values).all()


def test_a_game_without_human_score_is_an_error():
    with pytest.raises(UsageError, match="minatar/breakout: normalise to a reference arm"):
        human_normalised(make_scores(np.ones((2, 1, 1))))


def test_the_reference_arm_has_an_auc_of_one_in_each_game():
    rng = np.random.default_rng(0)
    decisions = (100, 200, 300, 350)
    reference = make_scores(rng.uniform(1, 9, size=(2, 3, 4)), decisions=decisions)
    own = reference_normalised(reference, reference, "none")
    np.testing.assert_allclose(auc(own).mean(1), [1, 1])
    assert not np.allclose(own.values.mean((1, 2)), 1), "the odd end is not in it"
    assert own.unit == "score in units of the AUC of none"

    twice = reference_normalised(
        make_scores(2 * reference.values, decisions=decisions), reference, "none"
    )
    np.testing.assert_allclose(twice.values, 2 * own.values)


def test_the_reference_is_the_mean_of_the_runs_that_it_has():
    reference = make_scores([[[2.0], [4.0]], [[np.nan], [5.0]]])
    scores = reference_normalised(make_scores(np.full((2, 2, 1), 30.0)), reference, "none")
    np.testing.assert_allclose(scores.values[..., 0], [[10, 10], [6, 6]])


@pytest.mark.parametrize("returns", [[0.0, 0.0], [-3.0, 1.0]])
def test_a_reference_that_is_not_positive_is_an_error(returns):
    reference = make_scores([[[1.0, 1.0]], [returns]])
    with pytest.raises(UsageError, match=r"minatar/asterix is (0|-1), but must be positive"):
        reference_normalised(reference, reference, "none")


def test_a_reference_without_runs_or_on_other_games_is_an_error():
    scores = make_scores(np.ones((2, 1, 1)))
    empty = make_scores([[[1.0]], [[np.nan]]])
    with pytest.raises(UsageError, match="no run on minatar/asterix"):
        reference_normalised(scores, empty, "none")
    with pytest.raises(UsageError, match="same games"):
        reference_normalised(scores, make_scores(np.ones((2, 1, 1)), MINATAR[::-1]), "none")


def test_auc_is_over_the_equally_spaced_points_and_final_is_the_last():
    """The paper's grid: 100k to 1.2M in the AUC; 1.25M is the final one."""
    results = make_results(
        make_study(MINATAR),
        value=lambda arm, game, seed, decision: 1e6 if decision == 1_250_000 else decision / 1e5,
    )
    scores = collect(results, "none")
    np.testing.assert_allclose(auc(scores), 6.5)
    np.testing.assert_allclose(final(scores), 1e6)


def test_a_last_point_on_the_grid_is_in_the_auc():
    scores = make_scores([[[1.0, 2.0, 6.0]], [[0.0, 0.0, 3.0]]], decisions=(100, 200, 300))
    np.testing.assert_allclose(auc(scores), [[3], [1]])


def test_a_return_that_is_not_finite_counts_as_the_worst_of_its_game():
    def value(arm, game, seed, decision):
        if (arm, game, seed) == ("none", "minatar/breakout", 1) and decision > 900_000:
            return float("nan")
        if (arm, game, seed) == ("BN batch", "minatar/asterix", 0) and decision == 100_000:
            return float("inf")
        return seed + decision / 1e6

    results = make_results(make_study(MINATAR), value=value)
    by_arm, diverged = judge_diverged({arm: collect(results, arm) for arm in ("none", "BN batch")})
    assert diverged == [("none", "minatar/breakout", 1), ("BN batch", "minatar/asterix", 0)]
    worst = 0.1  # seed 0 at the first of all times, and where that one diverged, of the other arm
    np.testing.assert_allclose(by_arm["none"].values[0, 1, -4:], worst)
    assert by_arm["none"].values[0, 1, 0] == 1.1
    assert by_arm["BN batch"].values[1, 0, 0] == worst
    assert all(np.isfinite(scores.values).all() for scores in by_arm.values())


def test_runs_that_are_missing_stay_missing_where_others_diverged():
    gone = [("none", "minatar/asterix", 1)]
    results = make_results(make_study(MINATAR), gone, value=lambda *key: float("-inf"))
    scores = collect(results, "none", allow_missing=True)
    judged, diverged = judge_diverged({"none": scores})
    assert len(diverged) == 5
    assert np.isnan(judged["none"].values[1, 1]).all()
    assert np.isnan(judged["none"].values).sum() == len(PAPER_GRID)


def test_a_variant_of_a_game_has_its_human_scores():
    raw = make_scores([[[14.6]]], games=("atari/Pong-sticky",))
    np.testing.assert_allclose(human_normalised(raw).values, 1)


def test_other_games_can_be_left_out():
    scores = make_scores(np.arange(12.0).reshape(2, 2, 3))
    kept = scores.only(["minatar/asterix"])
    assert kept.games == ("minatar/asterix",)
    np.testing.assert_array_equal(kept.values, scores.values[1:])


def test_a_part_without_a_finished_test_game_holds_the_last_known_return():
    study = replace(minatar_study(("breakout",), (0, 1)), metric="test", final_points=3)
    results = synthetic_results(study)
    ends = study.grid
    gap = pl.col("decision").is_in([ends[0], ends[1], ends[5], ends[-1]]) & (pl.col("seed") == 1)
    of_arm = (pl.col("arm") == "LN") & (pl.col("metric") == "test/return")
    whole = collect(results, "LN").values[0, 1]
    torn = replace(results, table=results.table.filter(~(gap & of_arm)))
    held = collect(torn, "LN")
    assert held.values[0, 1, 0] == held.values[0, 1, 1] == whole[2]
    assert held.values[0, 1, 5] == whole[4]
    assert held.values[0, 1, -1] == whole[-2]
    np.testing.assert_allclose(final(held)[0, 1], (whole[-3] + 2 * whole[-2]) / 3)
    none = replace(results, table=results.table.filter(~of_arm))
    with pytest.raises(UsageError, match="is finished but has no return"):
        collect(none, "LN")


def test_the_rounded_edges_of_equal_parts_all_count():
    study = replace(minatar_study(("breakout",), (0,)), metric="test", total_decisions=40_001)
    scores = collect(synthetic_results(study), "LN")
    assert len(set(np.diff(scores.decisions))) == 2
    np.testing.assert_allclose(auc(scores), scores.values.mean(-1))


@pytest.mark.parametrize(("level", "is_percent"), [(0.02, False), (0.06, False), (0.5, True)])
def test_nothing_is_a_percentage_of_a_reference_at_random_play(level, is_percent):
    """And both measures have the same unit."""
    study = STUDIES["paper-a"].restricted(arms=["C51", "LN"], seeds=[0, 1])
    numbers = StudyNumbers(synthetic_results(study, level=lambda arm: level), resamples=2)
    final, auc = (numbers.interval(numbers.arms[0], measure).point for measure in ("final", "auc"))
    assert (auc < 0.05 < final) == (level == 0.06), "random play by one measure alone is enough"
    unit = "% of C51" if is_percent else numbers.unit
    assert [numbers.relative_unit(measure) for measure in MEASURES] == [unit, unit]
