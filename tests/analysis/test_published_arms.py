"""Published results of others stand beside a study's arms in the same unit, and are marked."""

import numpy as np
import polars as pl
import pytest

from bnmodes.analysis.figures.bars import draw_bars
from bnmodes.analysis.figures.curves import draw_curves
from bnmodes.analysis.published_arms import (
    published_curve,
    published_interval,
    read_arms,
    require_shown,
)
from bnmodes.analysis.report.sections import aggregates_section
from bnmodes.analysis.scores import collect
from bnmodes.analysis.study_numbers import StudyNumbers
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
    arms = read_arms([path], study)
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
    arms = read_arms([as_table(results, "LN", tmp_path / "t.csv")], study)
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
    a = StudyNumbers(synthetic_results(STUDY_A), resamples=2, published=read_arms([PAPER], STUDY_A))
    require_shown(a)
    found = {arm.name: published_interval(a, arm, "auc").point for arm in a.published}
    assert found == {"BN running": 48, "BN batch": 154}

    pong = STUDIES["paper-c"].restricted(seeds=[0, 1])
    c = StudyNumbers(synthetic_results(pong), resamples=2, published=read_arms([PAPER], pong))
    running = next(arm for arm in c.published if arm.name == "BN running 0.9")
    shown = published_interval(c, running, "auc").point
    human = (-13.70 + 20.7) / (14.6 + 20.7)
    whole = c.reference_point("auc")
    assert shown == pytest.approx(human if whole is None else 100 * human / whole)
    draw_bars(c)

    f = STUDIES["paper-f"].restricted(games=["atari/Pong-sticky", "atari/Boxing-sticky"])
    numbers = StudyNumbers(synthetic_results(f, level=lambda arm: 0.5), resamples=2)
    mrq = next(arm for arm in read_arms([PAPER], f) if arm.name == "MR.Q")
    found = published_interval(numbers, mrq, "final")
    assert found.low / found.point == pytest.approx(1.24 / 1.30)
    assert published_interval(numbers, mrq, "auc") is None


def test_every_arm_of_the_papers_table_is_one_of_its_study():
    for row in pl.read_csv(PAPER).iter_rows(named=True):
        assert row["arm"] in {arm.name for arm in STUDIES[row["study"]].arms}, row


MRQ = """--------------------
Env: Atari-Pong-v5
Timestep\tSeed 0\t\tSeed 1
0\t\t-21.000\t\t-20.500
100000\t\t-3.000\t\t1.500
200000\t\t20.000\t21.000
--------------------
Env: Gym-Ant-v4
Timestep\tSeed 0
0\t\t1.0
"""


def test_text_files_of_mrq_are_understood(tmp_path):
    path = tmp_path / "atari_results.txt"
    path.write_text(MRQ)
    (arm,) = read_arms([path], STUDIES["paper-f"].restricted(games=["atari/Pong-sticky"]))
    assert (arm.name, arm.source) == ("MR.Q", "MR.Q, atari_results.txt")
    assert arm.scores.decisions == (100_000, 200_000), "before learning there is no score"
    assert arm.scores.values.tolist() == [[[-3.0, 20.0], [1.5, 21.0]]]


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
            "no auc or final",
        ),
        ("t.txt", "Env: Atari-Pong-v5\n0\t\thigh\n", "is no text file of MR.Q"),
        ("t.txt", "nothing\n", "holds no Atari results"),
    ],
)
def test_other_files_are_refused_with_a_sentence(tmp_path, name, text, sentence):
    path = tmp_path / name
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=sentence):
        read_arms([path], minatar_study())


def test_runs_with_gaps_and_units_that_do_not_fit_are_refused(tmp_path):
    study = minatar_study()
    results = synthetic_results(study)
    path = as_table(results, "LN", tmp_path / "t.csv")
    with pytest.raises(UsageError, match="twice"):
        read_arms([path, path], study)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))
    with pytest.raises(UsageError, match="at each of the same decisions"):
        read_arms([path], study)
    path.write_text(
        "study,arm,measure,unit,point,low,high,source\nsmall,x,auc,human-normalised score,1,,,z\n"
    )
    numbers = StudyNumbers(results, resamples=2, published=read_arms([path], study))
    with pytest.raises(UsageError, match="cannot stand beside"):
        require_shown(numbers)
