"""Published results of others stand beside a study's arms in the same unit, and are marked."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from bnmodes.analysis.figures.bars import bars, draw_bars
from bnmodes.analysis.figures.curves import draw_curves
from bnmodes.analysis.published_arms import (
    AGGREGATES,
    RETURNS,
    published_curve,
    published_interval,
    read_arms,
    require_shown,
)
from bnmodes.analysis.report.sections import aggregates_section
from bnmodes.analysis.scores import collect
from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.envs.registry import canonical_name
from bnmodes.errors import UsageError
from bnmodes.studies.registry import STUDIES
from docs.pages import ROOT
from helpers.synthetic import STUDY_A, minatar_study, synthetic_results

ATARI = STUDY_A.restricted(games=["atari/Pong", "atari/Boxing"])
PAPER = ROOT / "docs" / "results" / "paper.csv"


def as_table(results, arm, path, name="theirs"):
    """One of the study's own arms, as if somebody else had published it."""
    scores = collect(results, arm)
    rows = [
        (name, scores.games[g], scores.seeds[s], scores.decisions[t], value, "a paper")
        for (g, s, t), value in np.ndenumerate(scores.values)
    ]
    columns = ["arm", "game", "seed", "decision", "score", "source"]
    table = pl.DataFrame(rows, schema=columns, orient="row")
    (table.write_csv if path.suffix == ".csv" else table.write_parquet)(path)
    return path


@pytest.mark.parametrize("study", [minatar_study(), ATARI], ids=["relative", "human"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_returns_are_scored_as_the_studys_own(study, ending, tmp_path):
    results = synthetic_results(study)
    path = as_table(results, "BN batch", tmp_path / f"theirs.{ending}")
    arms = read_arms([path], study, study)
    numbers = StudyNumbers(results, resamples=50, published=arms)
    ours = study.arm("BN batch")
    for measure in ("auc", "final"):
        found = published_interval(numbers, arms[0], measure)
        expected = numbers.relative(ours, measure)
        assert (found.point, found.low, found.high) == pytest.approx(
            (expected.point, expected.low, expected.high)
        )
    decisions, band = published_curve(numbers, arms[0])
    assert list(decisions) == study.grid
    np.testing.assert_allclose(band.point, numbers.curve(ours).point)


def test_figures_and_report_mark_them(tmp_path):
    study = minatar_study()
    results = synthetic_results(study)
    arms = read_arms([as_table(results, "LN", tmp_path / "t.csv")], study, study)
    numbers = StudyNumbers(results, resamples=20, published=arms)
    panel = draw_bars(numbers).axes[0]
    assert [label.get_text() for label in panel.get_yticklabels()][-1] == "theirs (published)"
    hatches = [bar.get_hatch() for bar in panel.patches]
    assert hatches[-1] == "xxx"
    assert "xxx" not in hatches[:-1]
    lines = {line.get_label(): line for line in draw_curves(numbers).axes[0].lines}
    assert lines["theirs (published)"].get_linestyle() != "-"
    section = aggregates_section(numbers)
    assert "theirs (published)" in section
    assert "a paper" in section
    assert "Published by others" not in aggregates_section(StudyNumbers(results, resamples=20))
    assert "theirs" not in {one.arm.name for one in numbers.contrasts}, "nothing of them is tested"


def test_the_papers_numbers_are_shown_in_the_studys_unit():
    arms = read_arms([PAPER], STUDY_A, STUDY_A)
    a = StudyNumbers(synthetic_results(STUDY_A), resamples=2, published=arms)
    require_shown(a)
    found = {arm.name: published_interval(a, arm, "auc").point for arm in a.published}
    assert found == {"BN running": 48, "BN batch": 154}

    pong = STUDIES["paper-c"].restricted(seeds=[0, 1])
    c = StudyNumbers(synthetic_results(pong), resamples=2, published=read_arms([PAPER], pong, pong))
    running = next(arm for arm in c.published if arm.name == "BN running 0.9")
    shown = published_interval(c, running, "auc").point
    human = (-13.70 + 20.7) / (14.6 + 20.7)
    whole = c.reference_point("auc")
    assert shown == pytest.approx(human if whole is None else 100 * human / whole)
    draw_bars(c)

    f = STUDIES["paper-f"].restricted(seeds=[0])
    numbers = StudyNumbers(synthetic_results(f, level=lambda arm: 0.5), resamples=2)
    mrq = next(arm for arm in read_arms([PAPER], f, f) if arm.name == "MR.Q")
    found = published_interval(numbers, mrq, "final")
    assert found.low / found.point == pytest.approx(1.24 / 1.30)
    assert published_interval(numbers, mrq, "auc") is None


PUBLISHED_A = """study,arm,measure,unit,point,low,high,source
paper-a,in percent,auc,% of C51,48,,,z
paper-a,of humans,auc,human-normalised score,0.5,,,z
paper-a,raw,auc,raw return,10,,,z
"""


def test_aggregates_over_other_games_are_marked_or_not_shown(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(PUBLISHED_A)

    def of(study):
        arms = read_arms([path], study, STUDY_A)
        return StudyNumbers(synthetic_results(study), resamples=2, published=arms)

    def shown(numbers):
        return [
            arm.label(numbers)
            for arm in numbers.published
            if published_interval(numbers, arm, "auc") is not None
        ]

    whole = of(STUDY_A.restricted(seeds=[0]))
    assert shown(whole) == ["in percent (published)", "of humans (published)"]
    (drawing,) = bars(whole)
    assert drawing.caption.endswith("Hatched: published by others.")

    part = of(STUDY_A.restricted(games=["atari/Pong", "atari/Boxing"], seeds=[0]))
    assert shown(part) == ["in percent (published, 26 games)"], "no 26 games in percent of two"
    (drawing,) = bars(part)
    assert "where a label has a number of games, over so many" in drawing.caption
    names = [label.get_text() for label in drawing.figure.axes[0].get_yticklabels()]
    assert "in percent (published, 26 games)" in names
    with pytest.raises(UsageError, match=r"score over 26 games, which cannot .* over 2 games"):
        require_shown(part)

    one = of(STUDY_A.restricted(games=["atari/Boxing"], seeds=[0]))
    assert shown(one) == ["in percent (published, 26 games)"], "it is not known of which game"

    without_reference = STUDY_A.restricted(arms=["BN batch"], games=["atari/Boxing"], seeds=[0])
    assert shown(of(without_reference)) == ["of humans (published, 26 games)"]


def test_their_final_score_is_of_as_many_points_as_the_studys(tmp_path):
    study = replace(minatar_study(), final_points=3)
    results = synthetic_results(study)
    (arm,) = read_arms([as_table(results, "LN", tmp_path / "t.csv")], study, study)
    numbers = StudyNumbers(results, resamples=2, published=[arm])
    expected = numbers.relative(study.arm("LN"), "final").point
    assert published_interval(numbers, arm, "final").point == pytest.approx(expected)


def returns_at(decisions, path):
    """Published returns on both games of the small study, which makes 40,000 decisions."""
    games = minatar_study().games
    rows = [("theirs", canonical_name(g), 0, at, 1.0, "z") for g in games for at in decisions]
    columns = ["arm", "game", "seed", "decision", "score", "source"]
    pl.DataFrame(rows, schema=columns, orient="row").write_csv(path)
    return path


@pytest.mark.parametrize(
    ("decisions", "sentence"),
    [
        ((1_000, 6_000, 11_000, 40_000), "scores at 1,000, 6,000, 11,000, … decisions"),
        ((10_000, 20_000, 40_000), "not equally spaced"),
        ((2_000, 4_000), "until 4,000 decisions, but study small goes on until 40,000"),
        ((18_000, 36_000, 54_000), "until 36,000 decisions"),
        ((40_000,), "has 1 score a run"),
    ],
)
def test_returns_at_other_times_than_equal_parts_of_a_run_are_refused(
    tmp_path, decisions, sentence
):
    path = returns_at(decisions, tmp_path / "t.csv")
    with pytest.raises(UsageError, match=sentence):
        read_arms([path], minatar_study(), minatar_study())


@pytest.mark.parametrize(
    ("decisions", "label"),
    [
        ((10_000, 20_000, 30_000, 40_000), "theirs (published)"),
        ((15_000, 30_000, 40_000), "theirs (published)"),  # as a study's own odd end
        ((13_333, 26_666, 40_000), "theirs (published)"),  # rounded
        (range(13_000, 80_000, 13_000), "theirs (published, until 39,000 decisions)"),
    ],
)
def test_equal_parts_of_nearly_a_whole_run_are_taken(tmp_path, decisions, label):
    study = minatar_study()
    (arm,) = read_arms([returns_at(decisions, tmp_path / "t.csv")], study, study)
    assert arm.label(StudyNumbers(synthetic_results(study), resamples=2)) == label


def test_every_arm_of_the_papers_table_is_one_of_its_study():
    for row in pl.read_csv(PAPER).iter_rows(named=True):
        assert row["arm"] in {arm.name for arm in STUDIES[row["study"]].arms}, row


MRQ = """--------------------
Env: Atari-Pong-v5
Timestep\tSeed 0\t\tSeed 1
0\t\t-21.000\t\t-20.500
600000\t\t-3.000\t\t1.500
1200000\t\t20.000\t21.000
1800000\t\t20.000\t21.000
--------------------
Env: Gym-Ant-v4
Timestep\tSeed 0
0\t\t1.0
"""


def test_text_files_of_mrq_are_understood(tmp_path):
    path = tmp_path / "atari_results.txt"
    path.write_text(MRQ)
    pong = STUDIES["paper-f"].restricted(games=["atari/Pong-sticky"])
    (arm,) = read_arms([path], pong, pong)
    assert (arm.name, arm.source) == ("MR.Q", "MR.Q, atari_results.txt")
    assert arm.scores.decisions == (600_000, 1_200_000), "from after the start to the budget"
    assert arm.scores.values.tolist() == [[[-3.0, 20.0], [1.5, 21.0]]]


def table_with_empty(column, cell=""):
    """A good table of two rows but for this cell of the second."""
    good = {"arm": "x", "game": "minatar/breakout", "seed": 0, "decision": 40_000, "score": 1.0}
    if column not in RETURNS:
        good = {"study": "small", "arm": "x", "measure": "auc", "unit": "%", "point": 1.0}
        good |= {"low": 0.5, "high": 2.0}
    good |= {"source": "z"}
    rows = [good, good | {column: cell}]
    return "\n".join(",".join(map(str, row)) for row in [good, *(row.values() for row in rows)])


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("t.csv", None, "is no file"),
        ("t.dat", "x", "must end in"),
        ("t.csv", "arm,game\nx,y\n", "has the columns"),
        ("t.csv", "arm,game,seed,decision,score,source\nx,y,0,1,high,z\n", "cannot be read"),
        ("t.csv", "arm,game,seed,decision,score,source\nx,atari/Pong,0,1,2,z\n", "has no score"),
        ("t.csv", "study,arm,measure,unit,point,low,high,source\nq,x,auc,%,1,,,z\n", "no row of"),
        (
            "t.csv",
            "study,arm,measure,unit,point,low,high,source\nsmall,x,mean,%,1,,,z\n",
            "must be auc or final",
        ),
        ("t.csv", "arm,game,seed,decision,score,source\n", "has no rows"),
        *(
            ("t.csv", table_with_empty(column), f"cell in the column {column} that is empty")
            for column in (*RETURNS, *AGGREGATES)
            if column not in ("low", "high")
        ),
        ("t.csv", table_with_empty("score", "inf"), "cell in the column score that is"),
        ("t.csv", table_with_empty("point", "nan"), "cell in the column point that is"),
        ("t.txt", "Env: Atari-Pong-v5\n0\t\thigh\n", "is no text file of MR.Q"),
        ("t.txt", "nothing\n", "holds no Atari results"),
    ],
)
def test_other_files_are_refused_with_a_sentence(tmp_path, name, text, sentence):
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=sentence):
        read_arms([path], minatar_study(), minatar_study())


def test_runs_with_gaps_and_units_that_do_not_fit_are_refused(tmp_path):
    study = minatar_study()
    results = synthetic_results(study)
    path = as_table(results, "LN", tmp_path / "t.csv")
    with pytest.raises(UsageError, match="twice"):
        read_arms([path, path], study, study)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))
    with pytest.raises(UsageError, match="at each of the same decisions"):
        read_arms([path], study, study)
    path.write_text(
        "study,arm,measure,unit,point,low,high,source\nsmall,x,auc,human-normalised score,1,,,z\n"
    )
    numbers = StudyNumbers(results, resamples=2, published=read_arms([path], study, study))
    with pytest.raises(UsageError, match="cannot stand beside"):
        require_shown(numbers)
