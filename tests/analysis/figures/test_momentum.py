"""Figure 2's form: returns against the momentum of stored moments."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection

from bnmodes.analysis.arms import momentum_of, sweeps_of
from bnmodes.analysis.figures.figure import draw_all
from bnmodes.analysis.figures.momentum import draw_momentum
from bnmodes.analysis.resampling import bootstrap
from bnmodes.analysis.scores import auc, collect, final
from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.studies import paper
from bnmodes.studies.quick import QUICK
from helpers.synthetic import STUDY_A, synthetic_results

RESAMPLES = 100


def level(arm):
    """Slow moments harm whoever reads them."""
    base = {"bn-act-only": 0.8}.get(arm.base, 0.5)
    if arm.base not in ("bn-running", "bn-bootstrap-only", "bn-act-only"):
        return base
    return base + np.log10(1 - momentum_of(arm, "minatar/breakout")) / 10


@pytest.fixture(scope="module")
def pong():
    return synthetic_results(paper.C, level=level)


def lines_of(axes):
    """What was drawn with a marker at each momentum."""
    return [line for line in axes.lines if line.get_marker() not in ("None", "*")]


def test_each_combination_is_a_line_of_means_with_standard_errors(pong):
    figure = draw_momentum(StudyNumbers(pong, resamples=RESAMPLES))
    assert len(figure.axes) == 2
    for axes, measure in zip(figure.axes, (auc, final), strict=True):
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "0.9", "0.99", "0.999"]
        drawn = lines_of(axes)
        assert len(drawn) == 5
        for line, name in zip(
            drawn,
            (
                "BN running",
                "BN batch at bootstrap only",
                "BN batch at acting only",
                "BN batch at bootstrap only cache",
            ),
            strict=False,
        ):
            runs = [measure(collect(pong, f"{name} {m}"))[0] for m in ("0", "0.9", "0.99", "0.999")]
            np.testing.assert_allclose(line.get_ydata().astype(float), [one.mean() for one in runs])
        band = axes.collections[0].get_paths()[0].vertices
        first = measure(collect(pong, "BN running 0"))[0]
        error = first.std(ddof=1) / np.sqrt(5)
        edges = band[np.isclose(band[:, 0], 0), 1]
        assert edges.min() == pytest.approx(first.mean() - error)
        assert edges.max() == pytest.approx(first.mean() + error)


def test_arms_that_read_no_stored_moment_are_level_and_the_released_one_is_starred(pong):
    figure = draw_momentum(StudyNumbers(pong, resamples=RESAMPLES))
    axes = figure.axes[0]
    level_lines = [line for line in axes.lines if list(line.get_xdata()) == [0, 1]]
    means = [auc(collect(pong, name))[0].mean() for name in ("LN", "BN batch", "BN batch cache")]
    np.testing.assert_allclose([line.get_ydata()[0] for line in level_lines], means)
    stars = [line for line in axes.lines if line.get_marker() == "*"]
    assert [tuple(line.get_xdata()) for line in stars] == [(2,)], "momentum 0.99"
    released = auc(collect(pong, "BN running 0.99"))[0].mean()
    assert stars[0].get_ydata()[0] == pytest.approx(released)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "LN", "BN running", "BN batch at bootstrap only", "BN batch at acting only",
        "BN batch at bootstrap only cache", "BN batch at acting only cache",
        "BN batch", "BN batch cache",
    ]  # fmt: skip


def test_the_quick_study_has_panels_for_each_game_and_all_its_figures():
    results = synthetic_results(QUICK, level=level)
    drawn = {one.name: one for one in draw_all(StudyNumbers(results, resamples=RESAMPLES))}
    assert list(drawn) == ["bars", "momentum", "curves", "per-game", "aggregates"]
    assert [axes.get_title("left") for axes in drawn["momentum"].figure.axes] == [
        "breakout: AUC", "breakout: Final", "space invaders: AUC", "space invaders: Final",
    ]  # fmt: skip


def test_an_arm_with_one_momentum_has_an_error_bar():
    results = synthetic_results(QUICK, level=level)
    axes = draw_momentum(StudyNumbers(results, resamples=RESAMPLES)).axes[0]
    bars = [one for one in axes.collections if isinstance(one, LineCollection)]
    runs = auc(collect(results, "BN batch at bootstrap only 0.999"))[0]
    error = runs.std(ddof=1) / np.sqrt(3)
    assert any(
        np.allclose(bar.get_segments()[0][:, 1], [runs.mean() - error, runs.mean() + error])
        for bar in bars
    )


def test_more_games_than_fit_are_drawn_as_their_iqm():
    numbers = StudyNumbers(synthetic_results(paper.C51_SENSITIVITY), resamples=RESAMPLES)
    figure = draw_momentum(numbers)
    assert len(figure.axes) == 2
    (line, *_) = lines_of(figure.axes[0])
    values = numbers.values(paper.C51_SENSITIVITY.arm("BN running online α 0.1"), "auc")
    assert line.get_ydata()[0] == pytest.approx(bootstrap(values, resamples=RESAMPLES).point)


def test_a_study_with_one_momentum_has_no_such_figure():
    assert all(len(sweep.by_momentum) == 1 for sweep in sweeps_of(STUDY_A, STUDY_A.arms))
    drawn = draw_all(StudyNumbers(synthetic_results(STUDY_A), resamples=RESAMPLES))
    assert "momentum" not in {one.name for one in drawn}


def test_a_game_without_any_run_of_an_arm_is_left_open():
    results = synthetic_results(
        QUICK, is_missing=lambda run: run.arm == "LN" and run.game == "minatar/breakout"
    )
    figure = draw_momentum(StudyNumbers(results, allow_missing=True, resamples=RESAMPLES))
    figure.draw_without_rendering()
    assert figure.texts[0].get_text() == "3 of 36 runs missing"
