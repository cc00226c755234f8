"""Raw returns on each game while learning: a panel per game."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from bnmodes.analysis.captions import seed_mean_words
from bnmodes.analysis.figures.figure import Drawing, study_figure
from bnmodes.analysis.figures.style import (
    draw_band,
    game_title,
    in_house_style,
    label_lowest,
    new_figure,
    note_missing,
)
from bnmodes.analysis.figures.time_axis import finish_horizontal, horizontal, thousands, time_unit
from bnmodes.analysis.palette import ArmStyle
from bnmodes.analysis.statistics import Band
from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.errors import UsageError

_LEFT, _GAP, _BELOW = 0.72, 0.5, 0.62  # inches beside, between and under panels
_MARKED = {"markersize": 3.5, "markeredgewidth": 0.8}


@study_figure(place=5)
def per_game(numbers: StudyNumbers) -> Iterator[Drawing]:
    """A figure for each UTD."""
    for utd in numbers.utds:
        name = f"per-game {numbers.utd_name(utd)}".strip().lower().replace(" ", "-")
        at_utd = f" at {known}" if (known := numbers.utd_name(utd)) else ""
        scales = " Each panel has its own vertical scale." if len(_games(numbers)) > 1 else ""
        caption = f"Raw returns on each game{at_utd}: {seed_mean_words(numbers)}.{scales}"
        yield Drawing(name, draw_per_game(numbers, utd), caption)


def _games(numbers: StudyNumbers) -> tuple[str, ...]:
    return numbers.raw(numbers.arms[0]).games


@dataclass(frozen=True)
class _Grid:
    """Where the panels of one UTD are, in inches, with room for ticks, titles and a legend on top.

    Placed by hand: a layout engine takes many seconds for 26 panels.
    """

    panels: int
    labels: tuple[str, ...]
    """Of the legend."""

    @property
    def columns(self) -> int:
        """As many as keep 26 small panels on one page, or fewer large ones in a row."""
        return self.panels if self.panels <= 3 else 3 if self.panels <= 9 else 7

    @property
    def is_small(self) -> bool:
        return self.columns == 7

    @property
    def font(self) -> float:
        return 7.5 if self.is_small else 8.5

    @property
    def panel(self) -> tuple[float, float]:
        return (1.62, 1.3) if self.is_small else (3.1, 2.1)

    @property
    def width(self) -> float:
        return _LEFT + self.columns * self.panel[0] + (self.columns - 1) * _GAP + 0.2

    @property
    def legend_columns(self) -> int:
        """As many as fit side by side; a letter is 0.6 of its size wide, a handle eight letters."""
        entry = 0.6 * (max(map(len, self.labels)) + 8) * (self.font + 2) / 72
        return max(1, min(len(self.labels), int(self.width / entry)))

    @property
    def above(self) -> float:
        legend_rows = 1 + -(-len(self.labels) // self.legend_columns)
        return 0.38 + 1.75 * (self.font + 2) / 72 * legend_rows

    @property
    def height(self) -> float:
        rows = -(-self.panels // self.columns)
        return _BELOW + rows * self.panel[1] + (rows - 1) * _GAP + self.above

    def place(self, figure: FigureBase) -> list[Axes]:
        width, height = self.panel
        found = []
        for place in range(self.panels):
            row, column = divmod(place, self.columns)
            x = _LEFT + column * (width + _GAP)
            y = self.height - self.above - height - row * (height + _GAP)
            box = (x / self.width, y / self.height, width / self.width, height / self.height)
            found.append(figure.add_axes(box))
        return found


@in_house_style
def draw_per_game(numbers: StudyNumbers, *utds: float) -> Figure:
    """A grid of panels for each UTD, one above another."""
    for utd in utds:
        if utd not in numbers.utds:
            known = ", ".join(f"{known:g}" for known in numbers.utds)
            raise UsageError(f"no arm has UTD {utd:g}: choose from {known}.")
    labels = [tuple(line.label for line, _ in numbers.arms_at(utd)) for utd in utds]
    grids = [_Grid(len(_games(numbers)), of_utd) for of_utd in labels]
    heights = [grid.height for grid in grids]
    figure = new_figure(grids[0].width, sum(heights), layout=None)
    parts: Any = [figure]
    if len(utds) > 1:
        parts = figure.subfigures(len(utds), 1, height_ratios=heights)
    note_missing(figure, numbers.missing_note(utds, compares_games=False))
    for part, grid, utd in zip(parts, grids, utds, strict=True):
        _draw_grid(part, grid, numbers, utd)
    return figure


def _draw_grid(figure: FigureBase, grid: _Grid, numbers: StudyNumbers, utd: float) -> None:
    arms, panels, font = numbers.arms_at(utd), grid.place(figure), grid.font
    for _, arm in arms:
        style, scores = numbers.style(arm), numbers.raw(arm)
        x = horizontal(numbers, scores.decisions)
        for axes, runs in zip(panels, scores.values, strict=True):
            _draw_mean_of_seeds(axes, x, runs, style)
    for axes, game in zip(panels, _games(numbers), strict=True):
        axes.set_title(game_title(game), loc="left", fontsize=font + 1.5, pad=4)
        axes.tick_params(labelsize=font, length=2.5, pad=2)
        ticks = 4 if grid.is_small else 6
        axes.yaxis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 2.5, 5, 10]))
        axes.yaxis.set_major_formatter(FuncFormatter(thousands))
        finish_horizontal(axes, numbers)
        if not axes.lines:
            axes.text(0.5, 0.5, "no runs", transform=axes.transAxes, ha="center", color="#777777")
    for axes in panels[: -grid.columns]:  # all panels of a column have one horizontal axis
        axes.tick_params(labelbottom=False)
    label_lowest(panels, grid.columns, time_unit(numbers), fontsize=font + 0.5, labelpad=2)
    figure.supylabel(
        numbers.raw(arms[0][1]).unit, fontsize=font + 2, x=0.08 / grid.width, ha="left"
    )
    looks: list[Any] = [
        numbers.style(arm).line | numbers.style(arm).points | _MARKED for _, arm in arms
    ]
    figure.legend(
        [Line2D([], [], **look, linewidth=2) for look in looks],
        grid.labels,
        loc="upper left",
        title="; ".join(filter(None, (numbers.utd_name(utd), seed_mean_words(numbers)))),
        title_fontsize=font + 2,
        alignment="left",
        ncols=grid.legend_columns,
        frameon=False,
        fontsize=font + 2,
        handlelength=3,
        borderaxespad=0.3,
    )


def _draw_mean_of_seeds(axes: Axes, x: np.ndarray, runs: np.ndarray, style: ArmStyle) -> None:
    """`runs` is seeds × times; a missing seed is NaN. Every sixth part of a curve has a marker."""
    runs = runs[~np.isnan(runs).all(-1)]
    if not len(runs):
        return
    mean = runs.mean(0)
    error = runs.std(0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else np.zeros_like(mean)
    look = style.points | _MARKED | {"markevery": max(1, len(x) // 6), "linewidth": 1.2}
    draw_band(axes, x, Band(mean, mean - error, mean + error), style, **look)
