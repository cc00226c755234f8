"""Returns against the momentum of stored moments, for each choice of acting and bootstrapping."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bnmodes.analysis.figures.style import (
    TITLE,
    ArmStyle,
    arm_style,
    game_title,
    in_house_style,
    new_figure,
    note_missing,
)
from bnmodes.analysis.statistics import Interval
from bnmodes.analysis.study_numbers import MEASURE_NAMES, MEASURES, StudyNumbers, Sweep
from bnmodes.studies.study import Arm

RELEASED_MOMENTUM = 0.99
"""Flax's, in the released PQN, which reads running statistics everywhere but in its loss."""
_ROWS = 3
"""Most games that get panels of their own; more are drawn as their IQM."""


@in_house_style
def draw_momentum(numbers: StudyNumbers) -> Figure:
    """A row of panels per game; a level line is an arm that reads no stored moment."""
    games = numbers.raw(numbers.arms[0]).games
    places = list(range(len(games))) if len(games) <= _ROWS else [None]
    momenta = sorted({m for sweep in numbers.sweeps for m in sweep.by_momentum if m is not None})
    figure = new_figure(10.0, 0.9 + 2.7 * len(places))
    note_missing(figure, numbers.missing_note(numbers.utds, compares_games=places == [None]))
    grid = figure.subplots(len(places), len(MEASURES), squeeze=False)
    for game, row in zip(places, grid, strict=True):
        for axes, measure in zip(row, MEASURES, strict=True):
            for sweep in numbers.sweeps:
                _draw_sweep(axes, numbers, sweep, measure, game, momenta)
            name = f"IQM of {len(games)} games" if game is None else game_title(games[game])
            axes.set_title(f"{name}: {MEASURE_NAMES[measure]}", **TITLE)
            axes.set_xticks(range(len(momenta)), [f"{momentum:g}" for momentum in momenta])
            axes.set_xlim(-0.3, len(momenta) - 0.7)
            axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
            axes.set_ylabel(numbers.unit if game is None else "return (raw)")
    for axes in grid[-1]:
        axes.set_xlabel("Flax momentum of the stored moments (1 − α)")
    spread = "95% intervals" if places == [None] else "mean ± standard error"
    figure.legend(
        handles=[
            Line2D([], [], **_style(sweep).line, **_points(sweep), linewidth=1.8)
            for sweep in numbers.sweeps
        ],
        labels=[sweep.label for sweep in numbers.sweeps],
        loc="outside right upper",
        title=f"{spread}\nlevel: reads no stored moment\n★ as released",
        alignment="left",
        frameon=False,
        handlelength=3,
    )
    return figure


def _draw_sweep(
    axes: Axes,
    numbers: StudyNumbers,
    sweep: Sweep,
    measure: str,
    game: int | None,
    momenta: list[float],
) -> None:
    style = _style(sweep)
    if None in sweep.by_momentum:
        level = _interval(numbers, sweep.by_momentum[None], measure, game)
        axes.axhspan(level.low, level.high, color=style.colour, alpha=0.12, linewidth=0)
        axes.axhline(level.point, **style.line, linewidth=1.5)
        return
    there = [momentum for momentum in momenta if momentum in sweep.by_momentum]
    places = [momenta.index(momentum) for momentum in there]
    found = [_interval(numbers, sweep.by_momentum[m], measure, game) for m in there]
    points = [one.point for one in found]
    bars = [[one.point - one.low for one in found], [one.high - one.point for one in found]]
    look = style.line | style.points | {"linewidth": 1.8, "markersize": 5}
    axes.errorbar(places, points, bars, **look, capsize=3, elinewidth=1.1)
    if sweep.agent == "pqn" and sweep.base == "bn-running" and RELEASED_MOMENTUM in there:
        place = there.index(RELEASED_MOMENTUM)
        star = {"marker": "*", "markersize": 15, "markeredgecolor": "white", "zorder": 5}
        axes.plot(places[place], points[place], color=style.colour, **star)


def _interval(numbers: StudyNumbers, arm: Arm, measure: str, game: int | None) -> Interval:
    """On one game the mean ± standard error over the seeds that are there, else the IQM."""
    if game is None:
        return numbers.interval(arm, measure)
    values = MEASURES[measure](numbers.raw(arm))[game]
    values = values[~np.isnan(values)]
    if not len(values):
        return Interval(math.nan, math.nan, math.nan)
    mean = float(values.mean())
    error = float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return Interval(mean, mean - error, mean + error)


def _style(sweep: Sweep) -> ArmStyle:
    return arm_style(sweep.base, sweep.variant)


def _points(sweep: Sweep) -> dict:
    return {} if None in sweep.by_momentum else _style(sweep).points
