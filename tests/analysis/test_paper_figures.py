"""The paper's twelve figures, each from made-up results of its studies' full shape."""

from functools import cache

import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_hex

from bnmodes.analysis.paper_figures import PAPER_FIGURES
from bnmodes.analysis.statistics import iqm
from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.cli.figure import chosen_arms
from bnmodes.errors import UsageError
from bnmodes.studies import paper
from helpers.synthetic import synthetic_results, with_diagnostics

GREY, GREEN, BLUE, ORANGE, PURPLE = "#555555", "#009E73", "#0072B2", "#E69F00", "#8E4FB0"
UTDS = ("0.25", "1", "2", "4", "8", "12")


@cache
def numbers_of(name, arms):
    """Without bands' resamples: the tests of the study's own figures look at these."""
    study = next(study for study in paper.STUDIES if study.name == name).restricted(arms=arms)
    results = synthetic_results(study)
    if name.startswith("paper-e"):
        results = with_diagnostics(results)
    return StudyNumbers(results, resamples=10)


@cache
def drawn(number):
    figure = PAPER_FIGURES[number]
    arms = [tuple(arm.name for arm in study.arms) for study in figure.studies]
    studies = zip(figure.studies, arms, strict=True)
    picture = figure.draw(*(numbers_of(study.name, names) for study, names in studies))
    picture.draw_without_rendering()
    return picture


def titles(number):
    return [axes.get_title("left") for axes in drawn(number).axes]


def lines(axes):
    return {line.get_label(): line for line in axes.lines if line.get_label()[0] != "_"}


def colours(axes):
    return {name: to_hex(line.get_color()).upper() for name, line in lines(axes).items()}


def test_the_paper_has_twelve_figures():
    assert list(PAPER_FIGURES) == list(range(1, 13))


def test_figure_1_is_one_picture_of_both_c51_studies():
    assert titles(1) == [
        "(a) AUC IQM",
        "(b) Final IQM",
        "(c) AUC IQM against UTD",
        "(d) Final IQM against UTD",
    ]
    first, _, third, _ = drawn(1).axes
    bars = [label.get_text() for label in first.get_yticklabels()]
    assert bars == [arm.name for arm in paper.A.arms]
    assert list(lines(third)) == ["C51", "LN", "BN", "LN WN", "BN WN"]
    assert "% of C51" in first.get_xlabel()
    assert first.patches[0].get_width() == pytest.approx(100)
    assert lines(third)["C51"].get_ydata()[0] == pytest.approx(100)


def test_figure_2_has_the_papers_colours_and_one_line_for_each_combination():
    assert titles(2) == ["(a) Pong: AUC", "(b) Pong: Final", "(c) 26 games"]
    pong, _, atari = drawn(2).axes
    (legend,) = drawn(2).legends
    shown = {
        text.get_text(): to_hex(handle.get_color()).upper()
        for text, handle in zip(legend.get_texts(), legend.legend_handles, strict=True)
    }
    assert shown == {
        "LN": GREEN,
        "BN running": GREY,
        "BN batch at bootstrap only": ORANGE,
        "BN batch at acting only": PURPLE,
        "BN batch": BLUE,
    }
    (star,) = (line for line in pong.lines if line.get_marker() == "*")
    assert to_hex(star.get_color()).upper() == GREY
    assert star.get_xdata()[0] == ["0", "0.9", "0.99", "0.999"].index("0.99")
    assert colours(atari) == {
        "LN": GREEN,
        "BN running": GREY,
        "BN batch": BLUE,
        "LN HL-Gauss": ORANGE,
        "BN batch HL-Gauss": PURPLE,
    }
    assert lines(atari)["BN running"].get_linestyle() == "--"


def test_figure_3_is_the_iqm_over_games_and_seeds_with_both_ranks():
    assert len(drawn(3).axes) == 6
    for place, name in ((0, "paper-e-c51"), (3, "paper-e-pqn")):
        numbers = numbers_of(name, tuple(arm.name for arm in _study(name).arms))
        metrics = ("dormant_0.025", "one_batch_effective_rank", "one_batch_srank")
        for axes, metric in zip(drawn(3).axes[place : place + 3], metrics, strict=True):
            for line, arm in numbers.arms_at(numbers.utds[0]):
                rows = numbers.results.frame.filter(
                    (pl.col("metric") == f"diagnostics/{metric}") & (pl.col("arm") == arm.name)
                )
                last = rows.filter(pl.col("decision") == rows["decision"].max())
                values = last["value"].to_numpy().reshape(26, -1)
                assert lines(axes)[line.label].get_ydata()[-1] == pytest.approx(float(iqm(values)))
            assert "IQM" in axes.get_ylabel()
    thin = [line for line in drawn(3).axes[4].lines if line.get_marker() == "+"]
    assert len(thin) == 2, "pooled minibatches, of the arms with batch statistics"
    pqn = drawn(3).axes[4]
    assert lines(pqn)["LN HL-Gauss"].get_linestyle() != lines(pqn)["LN"].get_linestyle()
    green = np.array([int(colours(pqn)["LN HL-Gauss"][i : i + 2], 16) for i in (1, 3, 5)])
    assert green.argmax() == 1, "the hue is the normaliser's"


def _study(name):
    return next(study for study in paper.STUDIES if study.name == name)


def test_figure_4_has_a_panel_for_each_utd_with_its_own_scale():
    assert titles(4) == [f"UTD {utd}" for utd in UTDS]
    assert len({axes.get_ylim() for axes in drawn(4).axes}) == 6


@pytest.mark.parametrize(
    ("number", "utds"), [(5, ["0.25"]), (6, ["1", "2"]), (7, ["4", "8"]), (8, ["12"])]
)
def test_figures_5_to_8_are_grids_of_26_games_one_above_another(number, utds):
    figure = drawn(number)
    grids = figure.subfigs or [figure]
    assert len(grids) == len(utds)
    for grid, utd in zip(grids, utds, strict=True):
        assert [axes.get_title("left") for axes in grid.axes] == [
            game.removeprefix("atari/") for game in paper.B.games
        ]
        (legend,) = grid.legends
        assert legend.get_title().get_text().startswith(f"UTD {utd};")
    heights = [grid.axes[0].get_window_extent().y0 for grid in grids]
    assert heights == sorted(heights, reverse=True)


def test_figure_9_tells_arms_apart_by_colour_and_marker():
    axes = drawn(9).axes[0]
    looks = [(to_hex(line.get_color()).upper(), line.get_marker()) for line in axes.lines]
    names = [arm.name for arm in paper.D.arms]
    assert dict(zip(names, looks, strict=True)) == {
        "LN": (GREEN, "o"),
        "BN running": (GREY, "X"),
        "BN batch": (BLUE, "o"),
        "LN HL-Gauss": (ORANGE, "^"),
        "BN batch HL-Gauss": (PURPLE, "^"),
    }


def test_figures_10_to_12_are_of_the_actor_critics():
    (curves,) = drawn(10).axes
    assert list(lines(curves)) == ["XQC", "MR.Q", "TD3"]
    assert titles(11) == ["Median", "IQM", "Mean", "Optimality gap"]
    assert len(drawn(12).axes) == 26


def test_arms_can_be_chosen_also_those_that_the_paper_does_not_show():
    pong, atari = chosen_arms(PAPER_FIGURES[2].studies, ("BN batch at acting only cache 0.9",))
    assert [arm.name for arm in pong.arms] == ["BN batch at acting only cache 0.9"]
    assert atari == paper.D, "it has no such arm"
    with pytest.raises(UsageError, match="no study of this figure has an arm 'BN'"):
        chosen_arms(PAPER_FIGURES[2].studies, ("BN",))
