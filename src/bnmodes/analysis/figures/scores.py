"""Figures of any study, drawn from whatever runs there are."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from bnmodes.analysis.figures.aggregates import draw_aggregates
from bnmodes.analysis.figures.diagnostics import DIAGNOSTIC_FIGURES
from bnmodes.analysis.figures.momentum import draw_momentum
from bnmodes.analysis.figures.style import (
    TITLE,
    ArmStyle,
    EndLabel,
    arm_style,
    game_title,
    in_house_style,
    label_ends,
    new_figure,
    note_missing,
)
from bnmodes.analysis.figures.time_axis import finish_horizontal, horizontal, thousands, time_unit
from bnmodes.analysis.study_numbers import MEASURE_NAMES, MEASURES, Series, StudyNumbers
from bnmodes.errors import UsageError


def draw_all(numbers: StudyNumbers) -> dict[str, Figure]:
    """Those that apply to this study, by the stem of their file name."""
    figures = {"bars": draw_bars(numbers), "aggregates": draw_aggregates(numbers)}
    if len(numbers.utds) > 1:
        figures["scaling"] = draw_scaling(numbers)
    if sum(len(sweep.by_momentum) > 1 for sweep in numbers.sweeps):
        figures["momentum"] = draw_momentum(numbers)
    figures["curves"] = draw_curves(numbers)
    for utd in numbers.utds:
        figures[f"per-game {numbers.utd_name(utd)}".strip().lower().replace(" ", "-")] = (
            draw_per_game(numbers, utd)
        )
    drawn = {name: draw(numbers) for name, draw in DIAGNOSTIC_FIGURES.items()}
    return figures | {name: figure for name, figure in drawn.items() if figure is not None}


@in_house_style
def draw_bars(numbers: StudyNumbers) -> Figure:
    utd = numbers.utds[0]
    arms = numbers.arms_at(utd)
    at_utd = f" at {name}" if (name := numbers.utd_name(utd)) else ""
    figure = new_figure(9.0, 1.15 + 0.36 * len(arms))
    note_missing(figure, numbers.missing_note([utd]))
    panels = list(figure.subplots(1, 2, sharey=True))
    for axes, measure, letter in zip(panels, MEASURES, "ab", strict=True):
        intervals = [numbers.relative(arm, measure) for _, arm in arms]
        for place, ((line, _), interval) in enumerate(zip(arms, intervals, strict=True)):
            style = _style(line)
            axes.barh(
                place,
                interval.point,
                height=0.68,
                color=style.colour,
                alpha=0.55 if style.projected else 0.85,
                hatch="///" if style.projected else None,
                edgecolor="white",
                linewidth=0,
                xerr=[[interval.point - interval.low], [interval.high - interval.point]],
                error_kw={"ecolor": "#222222", "elinewidth": 1.2, "capsize": 3},
            )
            axes.annotate(
                f"{interval.point:.0f}" if abs(interval.point) >= 10 else f"{interval.point:.2g}",
                (max(interval.high, interval.point, 0), place),
                xytext=(6, 0),
                textcoords="offset points",
                verticalalignment="center",
                fontsize=8.5,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )
        _mark_reference(axes.axvline, numbers, measure)
        axes.set_title(f"({letter}) {MEASURE_NAMES[measure]} IQM{at_utd}", **TITLE)
        axes.set_xlabel(_relative_unit(numbers, measure))
        axes.set_yticks(range(len(arms)), [line.label for line, _ in arms])
        axes.tick_params(axis="y", length=0)
        axes.margins(x=0.1)
        if min(interval.low for interval in intervals) >= 0:
            axes.set_xlim(left=0)
    panels[0].set_ylim(len(arms) - 0.5, -0.5)  # the first arm on top
    return figure


@in_house_style
def draw_scaling(numbers: StudyNumbers) -> Figure:
    if len(numbers.utds) < 2:
        raise UsageError("no arm varies its updates per decision: scaling needs a study that does.")
    figure = new_figure(9.5, 3.8)
    note_missing(figure, numbers.missing_note(numbers.utds))
    panels = list(figure.subplots(1, 2))
    for axes, measure, letter in zip(panels, MEASURES, "cd", strict=True):
        for line in numbers.series:
            style = _style(line)
            utds = sorted(line.by_utd)
            places = [numbers.utds.index(utd) for utd in utds]
            intervals = [numbers.relative(line.by_utd[utd], measure) for utd in utds]
            low, high = [i.low for i in intervals], [i.high for i in intervals]
            axes.fill_between(places, low, high, color=style.colour, alpha=0.14, linewidth=0)
            axes.plot(
                places,
                [interval.point for interval in intervals],
                **style.line,
                **style.points,
                linewidth=1.8,
                markersize=5,
                label=line.label,
                clip_on=False,
            )
        _mark_reference(axes.axhline, numbers, measure)
        axes.set_title(f"({letter}) {MEASURE_NAMES[measure]} IQM against UTD", **TITLE)
        axes.set_xlabel("updates per decision (UTD)")
        axes.set_ylabel(_relative_unit(numbers, measure))
        axes.set_xticks(range(len(numbers.utds)), [f"{utd:g}" for utd in numbers.utds])
        axes.set_xlim(-0.15, len(numbers.utds) - 0.85)
        if axes.get_ylim()[0] > 0 or axes.dataLim.y0 >= 0:
            axes.set_ylim(bottom=0)
    _label_lines(panels)
    return figure


@in_house_style
def draw_curves(numbers: StudyNumbers) -> Figure:
    columns = min(3, len(numbers.utds))
    rows = -(-len(numbers.utds) // columns)
    figure = new_figure(2.2 + 3.4 * columns if columns > 1 else 7.5, 0.6 + 2.7 * rows + (rows < 2))
    note_missing(figure, numbers.missing_note(numbers.utds))
    grid = figure.subplots(rows, columns, squeeze=False)
    panels = list(grid.flat[: len(numbers.utds)])
    for axes in grid.flat[len(numbers.utds) :]:
        axes.remove()
    for axes, utd in zip(panels, numbers.utds, strict=True):
        for line, arm in numbers.arms_at(utd):
            style, band = _style(line), numbers.curve(arm)
            x = horizontal(numbers.results.study, numbers.scores(arm).decisions)
            axes.fill_between(x, band.low, band.high, color=style.colour, alpha=0.14, linewidth=0)
            axes.plot(
                x,
                band.point,
                **style.line,
                linewidth=1.7,
                marker="o" if len(x) == 1 else None,
                label=line.label,
                clip_on=False,
            )
        axes.set_title(numbers.utd_name(utd), **TITLE)
        if numbers.results.study.is_atari and axes.get_ylim()[1] >= 1:
            axes.axhline(1, color="#222222", linewidth=0.9, linestyle=":", zorder=0.5)
            axes.annotate("human", (0, 1), (3, 2), textcoords="offset points", fontsize=7.5)
        finish_horizontal(axes, numbers.results.study)
    _label_lowest(panels, columns, time_unit(numbers.results.study))
    figure.supylabel(f"IQM of {numbers.unit}", fontsize=9)
    _label_lines(panels, fontsize=7.5 if columns > 1 else 8.5)
    return figure


def _legend_columns(labels: Sequence[str], figure: Figure, points: float) -> int:
    """As many as fit side by side; a letter is 0.6 of its size wide, a handle eight letters."""
    entry_inches = 0.6 * (max(map(len, labels)) + 8) * points / 72
    return max(1, min(len(labels), int(figure.get_figwidth() / entry_inches)))


@in_house_style
def draw_per_game(numbers: StudyNumbers, utd: float) -> Figure:
    arms = numbers.arms_at(utd)
    if not arms:
        known = ", ".join(f"{known:g}" for known in numbers.utds)
        raise UsageError(f"no arm has UTD {utd:g}: choose from {known}.")
    games = numbers.raw(arms[0][1]).games
    # As many columns as keep 26 small panels on one page, or fewer large ones in a row.
    columns = len(games) if len(games) <= 3 else 3 if len(games) <= 9 else 7
    rows = -(-len(games) // columns)
    width, height = (2.15, 1.75) if columns == 7 else (3.6, 2.7)
    figure = new_figure(0.4 + width * columns, 0.75 + height * rows)
    note_missing(figure, numbers.missing_note([utd], compares_games=False))
    grid = figure.subplots(rows, columns, squeeze=False)
    panels = list(grid.flat[: len(games)])
    for axes in grid.flat[len(games) :]:
        axes.remove()
    small = 7.5 if columns == 7 else 8.5
    for line, arm in arms:
        style, scores = _style(line), numbers.raw(arm)
        x = horizontal(numbers.results.study, scores.decisions)
        for axes, runs in zip(panels, scores.values, strict=True):
            _draw_mean_of_seeds(axes, x, runs, style)
    for axes, game in zip(panels, games, strict=True):
        axes.set_title(game_title(game), loc="left", fontsize=small + 1.5, pad=4)
        axes.tick_params(labelsize=small, length=2.5, pad=2)
        axes.yaxis.set_major_locator(
            MaxNLocator(4 if columns == 7 else 6, steps=[1, 2, 2.5, 5, 10])
        )
        axes.yaxis.set_major_formatter(FuncFormatter(thousands))
        finish_horizontal(axes, numbers.results.study)
        if not axes.lines:
            axes.text(0.5, 0.5, "no runs", transform=axes.transAxes, ha="center", color="#777777")
    _label_lowest(panels, columns, time_unit(numbers.results.study), fontsize=small + 0.5)
    figure.supylabel(numbers.raw(arms[0][1]).unit, fontsize=small + 2)
    figure.legend(
        handles=[Line2D([], [], **_style(line).line, linewidth=2.2) for line, _ in arms],
        labels=[line.label for line, _ in arms],
        loc="outside upper left",
        title="; ".join(filter(None, (numbers.utd_name(utd), "mean ± standard error over seeds"))),
        title_fontsize=small + 2,
        alignment="left",
        ncols=_legend_columns([line.label for line, _ in arms], figure, small + 2),
        frameon=False,
        fontsize=small + 2,
        handlelength=3,
    )
    return figure


def _draw_mean_of_seeds(axes: Axes, x: np.ndarray, runs: np.ndarray, style: ArmStyle) -> None:
    """`runs` is seeds × times; a missing seed is NaN."""
    runs = runs[~np.isnan(runs).all(-1)]
    if not len(runs):
        return
    mean = runs.mean(0)
    error = runs.std(0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else np.zeros_like(mean)
    axes.fill_between(x, mean - error, mean + error, color=style.colour, alpha=0.18, linewidth=0)
    axes.plot(x, mean, **style.line, linewidth=1.3, marker="o" if len(x) == 1 else None)


def _style(line: Series) -> ArmStyle:
    return arm_style(line.base, line.variant)


def _label_lines(panels: Sequence[Axes], fontsize: float = 8.0) -> None:
    for axes in panels:
        label_ends(
            axes,
            [
                EndLabel(float(x[-1]), float(y[-1]), one.get_label(), one.get_color())
                for one, (x, y) in ((line, line.get_data()) for line in axes.lines)
                if not one.get_label().startswith("_")
            ],
            fontsize,
        )


def _mark_reference(draw_line, numbers: StudyNumbers, measure: str) -> None:
    if numbers.reference_point(measure) is not None:
        draw_line(100, color="#222222", linewidth=0.9, linestyle=":", zorder=0.5)


def _relative_unit(numbers: StudyNumbers, measure: str) -> str:
    if numbers.reference_point(measure) is None:
        return numbers.unit
    return f"% of {numbers.reference.name}"


def _label_lowest(panels: Sequence[Axes], columns: int, text: str, **options) -> None:
    """The lowest panel of each column, also above a place that stays empty."""
    for axes in panels[-columns:]:
        axes.set_xlabel(text, **options)
