"""Raw returns on each game while learning: a panel per game."""

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from bnmodes.analysis.figures.figure import Drawing, study_figure
from bnmodes.analysis.figures.style import (
    game_title,
    in_house_style,
    label_lowest,
    new_figure,
    note_missing,
)
from bnmodes.analysis.figures.time_axis import finish_horizontal, horizontal, thousands, time_unit
from bnmodes.analysis.palette import ArmStyle
from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.errors import UsageError


@study_figure(place=5)
def per_game(numbers: StudyNumbers) -> Iterator[Drawing]:
    """A figure for each UTD."""
    for utd in numbers.utds:
        name = f"per-game {numbers.utd_name(utd)}".strip().lower().replace(" ", "-")
        at_utd = f" at {known}" if (known := numbers.utd_name(utd)) else ""
        scales = " Each panel has its own vertical scale." if len(_games(numbers)) > 1 else ""
        caption = f"Raw returns on each game{at_utd}: mean ± standard error over seeds.{scales}"
        yield Drawing(name, draw_per_game(numbers, utd), caption)


def _games(numbers: StudyNumbers) -> tuple[str, ...]:
    return numbers.raw(numbers.arms[0]).games


@in_house_style
def draw_per_game(numbers: StudyNumbers, utd: float) -> Figure:
    arms = numbers.arms_at(utd)
    if not arms:
        known = ", ".join(f"{known:g}" for known in numbers.utds)
        raise UsageError(f"no arm has UTD {utd:g}: choose from {known}.")
    games = _games(numbers)
    # As many columns as keep 26 small panels on one page, or fewer large ones in a row.
    columns = len(games) if len(games) <= 3 else 3 if len(games) <= 9 else 7
    is_small = columns == 7
    small = 7.5 if is_small else 8.5
    labels = [line.label for line, _ in arms]
    width, height = (1.62, 1.3) if is_small else (3.1, 2.1)
    figure, panels = _panels(len(games), columns, width, height, labels, small + 2)
    note_missing(figure, numbers.missing_note([utd], compares_games=False))
    for _, arm in arms:
        style, scores = numbers.style(arm), numbers.raw(arm)
        x = horizontal(numbers, scores.decisions)
        for axes, runs in zip(panels, scores.values, strict=True):
            _draw_mean_of_seeds(axes, x, runs, style)
    for axes, game in zip(panels, games, strict=True):
        axes.set_title(game_title(game), loc="left", fontsize=small + 1.5, pad=4)
        axes.tick_params(labelsize=small, length=2.5, pad=2)
        axes.yaxis.set_major_locator(MaxNLocator(4 if is_small else 6, steps=[1, 2, 2.5, 5, 10]))
        axes.yaxis.set_major_formatter(FuncFormatter(thousands))
        finish_horizontal(axes, numbers)
        if not axes.lines:
            axes.text(0.5, 0.5, "no runs", transform=axes.transAxes, ha="center", color="#777777")
    label_lowest(panels, columns, time_unit(numbers), fontsize=small + 0.5, labelpad=2)
    unit = numbers.raw(arms[0][1]).unit
    figure.supylabel(unit, fontsize=small + 2, x=0.08 / figure.get_figwidth(), ha="left")
    figure.legend(
        handles=[Line2D([], [], **numbers.style(arm).line, linewidth=2.2) for _, arm in arms],
        labels=labels,
        loc="upper left",
        title="; ".join(filter(None, (numbers.utd_name(utd), "mean ± standard error over seeds"))),
        title_fontsize=small + 2,
        alignment="left",
        ncols=_legend_columns(labels, figure.get_figwidth(), small + 2),
        frameon=False,
        fontsize=small + 2,
        handlelength=3,
        borderaxespad=0.3,
    )
    return figure


def _panels(
    number: int, columns: int, width: float, height: float, labels: Sequence[str], points: float
) -> tuple[Figure, list[Axes]]:
    """Panels of a given size in inches, with room for ticks, titles and the legend on top.

    Placed by hand: a layout engine takes many seconds for 26 panels.
    """
    rows = -(-number // columns)
    left, gap, below, between = 0.72, 0.5, 0.62, 0.5
    total_width = left + columns * width + (columns - 1) * gap + 0.2
    legend_rows = 1 + -(-len(labels) // _legend_columns(labels, total_width, points))
    above = 0.38 + 1.75 * points / 72 * legend_rows
    total_height = below + rows * height + (rows - 1) * between + above
    figure = new_figure(total_width, total_height, layout=None)
    panels = []
    for place in range(number):
        row, column = divmod(place, columns)
        x = left + column * (width + gap)
        y = total_height - above - height - row * (height + between)
        box = (x / total_width, y / total_height, width / total_width, height / total_height)
        panels.append(figure.add_axes(box))
    return figure, panels


def _legend_columns(labels: Sequence[str], width: float, points: float) -> int:
    """As many as fit side by side; a letter is 0.6 of its size wide, a handle eight letters."""
    entry_inches = 0.6 * (max(map(len, labels)) + 8) * points / 72
    return max(1, min(len(labels), int(width / entry_inches)))


def _draw_mean_of_seeds(axes: Axes, x: np.ndarray, runs: np.ndarray, style: ArmStyle) -> None:
    """`runs` is seeds × times; a missing seed is NaN."""
    runs = runs[~np.isnan(runs).all(-1)]
    if not len(runs):
        return
    mean = runs.mean(0)
    error = runs.std(0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else np.zeros_like(mean)
    axes.fill_between(x, mean - error, mean + error, color=style.colour, alpha=0.18, linewidth=0)
    axes.plot(x, mean, **style.line, linewidth=1.3, marker="o" if len(x) == 1 else None)
