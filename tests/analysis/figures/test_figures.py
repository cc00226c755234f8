"""Every figure at the paper's full shape and at MinAtar's, with what it plots."""

from functools import cache
from itertools import combinations

import matplotlib.colors
import matplotlib.figure
import numpy as np
import pytest

from bnmodes.analysis.arms import series_of
from bnmodes.analysis.comparable import comparable
from bnmodes.analysis.contrasts import UNJUDGED
from bnmodes.analysis.figures import figure as registry
from bnmodes.analysis.figures.aggregates import draw_aggregates
from bnmodes.analysis.figures.bars import draw_bars
from bnmodes.analysis.figures.curves import draw_curves
from bnmodes.analysis.figures.figure import Drawing, all_figures, study_figure
from bnmodes.analysis.figures.per_game import draw_per_game
from bnmodes.analysis.figures.scaling import draw_scaling
from bnmodes.analysis.figures.style import new_figure, render, spread
from bnmodes.analysis.palette import COLOURS, styles_of
from bnmodes.analysis.resampling import bootstrap, curve
from bnmodes.analysis.scores import auc, collect, final
from bnmodes.analysis.statistics import AGGREGATES, iqm, percent_of_reference
from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.errors import UsageError
from bnmodes.studies.paper import F as STUDY_F
from bnmodes.studies.registry import STUDIES
from helpers.synthetic import STUDY_A, STUDY_B, minatar_study, normalised, synthetic_results

RESAMPLES = 100
MEASURES = (auc, final)


@cache
def paper_b():
    return synthetic_results(STUDY_B)


@cache
def paper_a():
    return synthetic_results(STUDY_A)


def numbers_of(results, allow_missing=False):
    return StudyNumbers(results, allow_missing=allow_missing, resamples=RESAMPLES)


def expected_percent(results, arm, measure):
    reference = measure(normalised(results, results.study.reference, allow_missing=True))
    interval = bootstrap(measure(normalised(results, arm, allow_missing=True)), resamples=RESAMPLES)
    return percent_of_reference(interval, float(iqm(reference)))


def draw_all(numbers):
    return {one.name: one.figure for one in registry.draw_all(numbers)}


def notes(figure):
    return [text.get_text() for text in figure.texts if text.get_gid() == "missing-runs"]


@pytest.mark.parametrize(
    "results", [paper_a, lambda: synthetic_results(minatar_study())], ids=["atari", "minatar"]
)
def test_bars_are_the_percentages_with_their_intervals(results):
    results = results()
    figure = draw_bars(numbers_of(results))
    assert len(figure.axes) == 2
    for axes, measure in zip(figure.axes, MEASURES, strict=True):
        assert len(axes.patches) == len(results.study.arms)
        for arm, bar, whisker in zip(
            results.study.arms, axes.patches, axes.collections, strict=True
        ):
            expected = expected_percent(results, arm.name, measure)
            ((low, _), (high, _)) = whisker.get_segments()[0]
            assert bar.get_width() == pytest.approx(expected.point)
            assert (low, high) == pytest.approx((expected.low, expected.high))
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == [arm.name for arm in results.study.arms]
    assert figure.axes[0].patches[0].get_width() == pytest.approx(100)


def test_bars_of_a_study_with_several_utds_are_at_the_smallest():
    figure = draw_bars(numbers_of(paper_b()))
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["C51", "LN", "BN", "LN WN", "BN WN"]


def test_scaling_has_a_line_per_configuration_and_a_point_per_utd():
    results = paper_b()
    figure = draw_scaling(numbers_of(results))
    for axes, measure in zip(figure.axes, MEASURES, strict=True):
        lines = {line.get_label(): line for line in axes.lines if line.get_label()[0] != "_"}
        assert list(lines) == ["C51", "LN", "BN", "LN WN", "BN WN"]
        assert [tick.get_text() for tick in axes.get_xticklabels()] == [
            "0.25", "1", "2", "4", "8", "12",
        ]  # fmt: skip
        bn_wn = [f"BN WN UTD {utd}" for utd in ("0.25", "1", "2", "4", "8", "12")]
        expected = [expected_percent(results, arm, measure).point for arm in bn_wn]
        np.testing.assert_allclose(lines["BN WN"].get_ydata(), expected)
        assert lines["BN WN"].get_linestyle() == "--"
        named_at_the_end = {text.get_text() for text in axes.texts}
        assert set(lines) <= named_at_the_end


def test_scaling_needs_several_utds():
    with pytest.raises(UsageError, match="no arm varies"):
        draw_scaling(numbers_of(paper_a()))


def test_curves_have_a_panel_per_utd_and_the_statistics_bands():
    results = paper_b()
    figure = draw_curves(numbers_of(results))
    assert [axes.get_title("left") for axes in figure.axes] == [
        f"UTD {utd}" for utd in ("0.25", "1", "2", "4", "8", "12")
    ]
    scores = normalised(results, "LN UTD 4")
    band = curve(scores.values, resamples=RESAMPLES)
    axes = figure.axes[3]
    (line,) = (line for line in axes.lines if line.get_label() == "LN")
    np.testing.assert_allclose(line.get_xdata(), np.array(scores.decisions) * 4 / 1e6)
    np.testing.assert_allclose(line.get_ydata(), band.point)
    drawn = axes.collections[1].get_paths()[0].vertices[:, 1]
    assert (drawn.min(), drawn.max()) == pytest.approx((band.low.min(), band.high.max()))
    assert axes.get_xlabel() == "frames (millions)"
    assert figure.get_supylabel() == f"IQM of {scores.unit}"
    assert len({axes.get_ylim() for axes in figure.axes}) == 6


@pytest.mark.parametrize("utd", [0.25, 12.0])
def test_the_grid_of_26_games_shows_raw_means_and_standard_errors(utd):
    results = paper_b()
    figure = draw_per_game(numbers_of(results), utd)
    assert len(figure.axes) == 26
    assert [axes.get_title("left") for axes in figure.axes] == [
        game.removeprefix("atari/") for game in STUDY_B.games
    ]
    runs = collect(results, f"BN WN UTD {utd:g}").values[3]  # seeds × times of the fourth game
    axes = figure.axes[3]
    np.testing.assert_allclose(axes.lines[4].get_ydata(), runs.mean(0))
    error = runs.std(0, ddof=1) / np.sqrt(3)
    drawn = axes.collections[4].get_paths()[0].vertices[:, 1]
    assert drawn.max() == pytest.approx((runs.mean(0) + error).max())
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["C51", "LN", "BN", "LN WN", "BN WN"]


def test_nothing_in_the_grid_of_26_games_overlaps_and_its_text_is_large_enough():
    figure = draw_per_game(numbers_of(paper_b()), 1.0)
    figure.draw_without_rendering()
    boxes = [axes.get_tightbbox() for axes in figure.axes]
    for place, box in enumerate(boxes):
        assert not any(box.shrunk(0.98, 0.98).overlaps(other) for other in boxes[place + 1 :])
    sizes = [label.get_fontsize() for axes in figure.axes for label in axes.get_yticklabels()]
    assert min(sizes) >= 7


@pytest.mark.parametrize("games", [2, 5])
def test_minatar_figures_count_decisions(games):
    names = ("breakout", "space_invaders", "asterix", "freeway", "seaquest")[:games]
    results = synthetic_results(minatar_study(names))
    drawn = draw_all(numbers_of(results))
    assert list(drawn) == ["bars", "curves", "per-game", "aggregates"]
    grid = drawn["per-game"]
    assert len(grid.axes) == games
    assert grid.axes[-1].get_xlabel() == "decisions"
    assert grid.get_supylabel() == "raw return"
    assert drawn["curves"].get_supylabel() == "IQM of score in units of the AUC of C51"
    assert not any(map(notes, drawn.values()))


def test_one_arm_one_game_one_seed_gives_figures_without_intervals():
    results = synthetic_results(minatar_study(("breakout",), (7,), ("none",)))
    drawn = draw_all(numbers_of(results))
    for figure in drawn.values():
        figure.draw_without_rendering()
    assert not drawn["bars"].axes[0].collections


def test_missing_runs_are_an_error_or_are_noted_on_every_figure():
    results = synthetic_results(
        minatar_study(), is_missing=lambda run: run.arm == "LN" and run.seed == 1
    )
    with pytest.raises(UsageError, match="2 runs of arm 'LN' missing"):
        draw_all(numbers_of(results))
    compared = "; only seeds that every arm has are compared"
    for name, figure in draw_all(numbers_of(results, True)).items():
        assert notes(figure) == ["2 of 30 runs missing" + ("" if "game" in name else compared)]


def test_arms_are_compared_on_the_seeds_that_all_of_them_have():
    """Else an arm's IQM would weigh games by how many of its runs happen to be there."""
    results = synthetic_results(
        minatar_study(),
        is_missing=lambda run: run.arm == "LN" and run.game == "minatar/breakout" and run.seed > 0,
    )
    numbers = StudyNumbers(results, allow_missing=True, resamples=RESAMPLES)
    present = {arm.name: ~np.isnan(numbers.values(arm, "final")) for arm in numbers.arms}
    assert present["LN"].sum(1).tolist() == [1, 3]
    assert all((present["LN"] == other).all() for other in present.values())
    assert {contrast.verdict for contrast in numbers.contrasts} == {UNJUDGED}, "40 deals of runs"


def test_a_note_counts_the_runs_of_its_own_figure():
    results = synthetic_results(
        STUDY_B, is_missing=lambda run: run.arm.endswith("UTD 8") and run.seed == 0
    )
    numbers = StudyNumbers(results, allow_missing=True, resamples=RESAMPLES)
    assert notes(draw_per_game(numbers, 8.0)) == ["130 of 390 runs missing"]
    assert notes(draw_per_game(numbers, 4.0)) == []
    assert notes(draw_scaling(numbers)) == [
        "130 of 2,340 runs missing; only seeds that every arm has are compared"
    ]


def test_a_figure_of_one_utd_says_that_games_are_missing_at_another():
    study = STUDY_B.restricted(
        arms=["C51 UTD 0.25", "BN UTD 0.25", "C51 UTD 12"], games=["atari/Pong", "atari/Alien"]
    )
    results = synthetic_results(
        study, is_missing=lambda run: run.arm == "C51 UTD 12" and run.game == "atari/Alien"
    )
    assert notes(draw_bars(numbers_of(results, True))) == ["1 of 2 games compared"]


def test_captions_count_the_seeds_that_are_compared():
    results = synthetic_results(
        minatar_study(), is_missing=lambda run: run.arm == "LN" and run.seed > 0
    )
    for drawing in registry.draw_all(numbers_of(results, True)):
        if drawing.name != "per-game":
            assert "over 2 games and 1 seed" in drawing.caption


def test_arms_are_compared_on_the_games_that_all_of_them_have():
    """A game that one arm lacks is left out for all; an arm without any run is named."""
    results = synthetic_results(
        minatar_study(("breakout", "space_invaders", "asterix")),
        is_missing=lambda run: (
            run.arm == "BN batch" or (run.arm == "LN" and run.game == "minatar/asterix")
        ),
    )
    kept = comparable(results).study
    assert kept.games == ("minatar/breakout", "minatar/space_invaders")
    assert [arm.name for arm in kept.arms] == ["C51", "LN", "BN running", "BN tracked"]
    drawn = draw_all(numbers_of(results, True))
    assert notes(drawn["bars"]) == [
        "12 of 45 runs missing; none of BN batch; 2 of 3 games compared"
    ]
    assert len(drawn["per-game"].axes) == 3


def test_no_game_with_all_arms_is_a_clear_error():
    results = synthetic_results(
        minatar_study(), is_missing=lambda run: (run.arm == "LN") == (run.game[8] == "b")
    )
    with pytest.raises(UsageError, match="no game and seed of study small has a finished run"):
        draw_bars(numbers_of(results, True))


def test_a_reference_that_cannot_be_divided_by_gives_scores_instead_of_percentages():
    results = synthetic_results(STUDY_A, level=lambda arm: -0.1 if arm.base == "none" else 0.2)
    axes = draw_bars(numbers_of(results)).axes[0]
    assert axes.get_xlabel() == "human-normalised score (wang2016)"
    value = iqm(auc(normalised(results, "C51")))
    assert axes.patches[0].get_width() == pytest.approx(value)


def test_the_same_figure_gives_the_same_bytes_in_every_format():
    numbers = numbers_of(synthetic_results(minatar_study(("breakout",))))
    first, again = (render(draw_bars(numbers), ["png", "pdf", "svg"]) for _ in range(2))
    starts = [content[:5] for content in first.values()]
    assert starts == [b"\x89PNG\r", b"%PDF-", b"<?xml"]
    assert first == again


def test_a_figure_is_laid_out_once_whatever_formats_are_asked():
    figure = draw_curves(numbers_of(synthetic_results(minatar_study(("breakout",)))))
    layouts = []
    engine = figure.get_layout_engine()
    execute = engine.execute
    engine.execute = lambda fig: (layouts.append(fig), execute(fig))
    render(figure, ["png", "pdf", "svg"])
    assert len(layouts) == 1


def test_lines_that_name_themselves_lay_the_figure_out_once_for_all_panels(monkeypatch):
    calls = []
    plain = matplotlib.figure.Figure.draw_without_rendering
    monkeypatch.setattr(
        matplotlib.figure.Figure,
        "draw_without_rendering",
        lambda figure: (calls.append(figure), plain(figure)),
    )
    assert len(draw_curves(numbers_of(paper_b())).axes) == 6
    assert len(calls) == 1


def test_each_module_of_figures_is_in_the_table_without_being_named_anywhere():
    names = [figure.draw.__name__ for figure in all_figures()]
    assert names == [
        "bars", "dose_response", "scaling", "momentum", "curves", "per_game", "aggregates",
        "mismatch", "max_q_curves", "representation",
    ]  # fmt: skip


def test_a_figure_of_ones_own_is_drawn_in_its_place(monkeypatch):
    monkeypatch.setattr(registry, "_figures", dict(registry._figures))

    @study_figure(place=1.5)
    def mine(numbers):
        yield Drawing("mine", new_figure(2.0, 2.0), "What I want to see.")

    drawn = draw_all(numbers_of(synthetic_results(minatar_study(("breakout",)))))
    assert list(drawn)[:2] == ["bars", "mine"]


@pytest.mark.parametrize("caption", ["", "  "])
def test_a_figure_without_caption_is_an_error(caption):
    with pytest.raises(ValueError, match="the figure mine has no caption"):
        Drawing("mine", new_figure(2.0, 2.0), caption)
    with pytest.raises(TypeError, match="caption"):
        Drawing("mine", new_figure(2.0, 2.0))


def test_every_arm_has_its_own_colour_and_known_arms_keep_theirs():
    assert [style.colour for style in styles_of(["none", "ln", "bn-batch"])] == [
        "#555555", "#009E73", "#0072B2",
    ]  # fmt: skip
    projected, plain = styles_of(["bn-wn", "bn-batch"])
    assert plain.colour == COLOURS["bn-batch"]
    assert (projected.dashes, plain.dashes) == ("--", "-")
    for study in STUDIES.values():
        styles = styles_of([line.base for line in series_of(study.arms)])
        assert len({style.colour for style in styles}) == len(styles), study.name


def test_the_arms_of_whose_rows_give_statistics_differ_for_the_colour_blind():
    """Least distance of two colours in CIE Lab, as seen with and without red or green cones."""
    bases = ["none", "ln", "bn-running", "bn-batch", "bn-independent", "bn-pool", "bn-partner"]
    styles = styles_of([*bases, "bn-joined", "bn-anchored"])
    assert len({style.marker for style in styles}) == len(styles)
    for sight in (np.eye(3), NO_RED_CONES, NO_GREEN_CONES):
        labs = [_lab(sight @ _linear(style.colour)) for style in styles]
        for a, b in combinations(range(len(labs)), 2):
            assert np.linalg.norm(labs[a] - labs[b]) > 15, (styles[a], styles[b])


# Machado, Oliveira, Fernandes: "A physiologically-based model for simulation of color vision
# deficiency", 2009: severity 1.
NO_RED_CONES = np.array(
    [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ]
)
NO_GREEN_CONES = np.array(
    [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ]
)


def _linear(colour: str) -> np.ndarray:
    """sRGB without its gamma."""
    c = np.array(matplotlib.colors.to_rgb(colour))
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def _lab(linear: np.ndarray) -> np.ndarray:
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    relative = to_xyz @ np.clip(linear, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(relative > 0.008856, np.cbrt(relative), 7.787 * relative + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_arms_that_nobody_knows_have_colours_too():
    bases = ["mine", "bn-batch", "yours", "mine", *(f"other {n}" for n in range(30)), "bn-joined"]
    styles = styles_of(bases)
    assert len({style.colour for style in styles}) == len(bases)
    assert styles[1].colour == COLOURS["bn-batch"]
    assert styles[0].dashes != styles[3].dashes, "one base twice"
    assert [style.colour for style in styles_of(bases[:2])] == [one.colour for one in styles[:2]]


def test_labels_move_apart_evenly_and_no_further_than_needed():
    np.testing.assert_allclose(spread(np.array([0.0, 50.0]), 10.0), [0, 50])
    np.testing.assert_allclose(spread(np.array([20.0, 20.0]), 10.0), [15, 25])
    crowded = spread(np.array([0.0, 1.0, 2.0, 3.0, 40.0]), 10.0)
    assert (np.diff(crowded) >= 10 - 1e-9).all()
    assert crowded[:4].mean() == pytest.approx(1.5)
    assert crowded[4] == 40


def test_aggregates_are_the_tables_numbers_for_each_arm():
    numbers = numbers_of(synthetic_results(STUDY_F))
    figure = draw_aggregates(numbers)
    assert [axes.get_title("left") for axes in figure.axes] == [
        "Median", "IQM", "Mean", "Optimality gap",
    ]  # fmt: skip
    for axes, name in zip(figure.axes, ("median", "IQM", "mean", "optimality gap"), strict=True):
        for arm, box, point in zip(STUDY_F.arms, axes.patches, axes.collections, strict=True):
            expected = numbers.interval(arm, "final", AGGREGATES[name])
            assert (box.get_x(), box.get_x() + box.get_width()) == pytest.approx(
                (expected.low, expected.high)
            )
            assert point.get_segments()[0][0, 0] == pytest.approx(expected.point)


def test_scores_in_units_of_an_arm_have_no_optimality_gap():
    study = STUDIES["quick"].restricted(games=["minatar/breakout"])
    figure = draw_aggregates(numbers_of(synthetic_results(study, level=lambda arm: 0.5)))
    assert [axes.get_title("left") for axes in figure.axes] == ["Median", "IQM", "Mean"]


def test_study_f_is_one_panel_with_a_line_at_human_level():
    numbers = numbers_of(synthetic_results(STUDY_F, level=lambda arm: 1.2))
    drawn = draw_all(numbers)
    (axes,) = drawn["curves"].axes
    names = [line.get_label() for line in axes.lines if line.get_label()[0] != "_"]
    assert names == ["XQC", "MR.Q", "TD3"], "one panel, though XQC makes two updates a decision"
    assert any(list(line.get_ydata()) == [1, 1] for line in axes.lines)
    assert len(drawn["per-game"].axes) == 26
    assert {contrast.other.name for contrast in numbers.contrasts} == {"TD3", "MR.Q"}


@pytest.mark.parametrize(
    "games", [["minatar/breakout"], ["minatar/breakout", "minatar/space_invaders"]]
)
def test_the_legend_of_per_game_curves_stays_on_the_page(games):
    study = STUDIES["quick"].restricted(games=games)
    numbers = StudyNumbers(synthetic_results(study, level=lambda arm: 0.5), resamples=20)
    figure = draw_per_game(numbers, numbers.utds[0])
    figure.canvas.draw()
    (legend,) = figure.legends
    extent = legend.get_window_extent()
    assert extent.x0 >= 0
    assert extent.x1 <= figure.bbox.x1
    assert len(legend.get_texts()) == 6
