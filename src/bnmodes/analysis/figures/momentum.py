"""Returns against the momentum of running statistics, for each way to act and bootstrap."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bnmodes.analysis.arms import Sweep, reads_throughout
from bnmodes.analysis.captions import intervals_as, seed_mean_words
from bnmodes.analysis.figures.figure import Drawing, study_figure
from bnmodes.analysis.figures.style import (
    TITLE,
    draw_band,
    game_title,
    in_house_style,
    new_figure,
    note_missing,
)
from bnmodes.analysis.palette import ArmStyle, styles_of
from bnmodes.analysis.statistics import Interval, along
from bnmodes.analysis.study_numbers import MEASURE_NAMES, MEASURES, StudyNumbers
from bnmodes.studies.study import Arm

DEFAULT_MOMENTUM = 0.99
"""Flax's own, which released agents often keep."""
MOMENTUM_AXIS = "Flax momentum of the running statistics (1 − α)"
_ROWS = 3
"""Most games that get panels of their own; more are drawn as their IQM."""


@study_figure(place=3)
def momentum(numbers: StudyNumbers) -> Iterator[Drawing]:
    if not any(len(sweep.by_momentum) > 1 for sweep in numbers.sweeps):
        return
    spread = (
        f"the IQM over games; {intervals_as(numbers, 'bands: {}')}"
        if _places(numbers) == [None]
        else f"raw, {seed_mean_words(numbers)}"
    )
    caption = (
        f"Returns ({spread}) against the Flax momentum with which the loss forward writes the "
        "running statistics. A level line belongs to an arm that never reads them when it acts or "
        "bootstraps; a star marks running statistics throughout at Flax's default momentum, 0.99."
    )
    yield Drawing("momentum", draw_momentum(numbers), caption)


def _places(numbers: StudyNumbers) -> list[int | None]:
    """The games that get panels; None is their IQM."""
    games = numbers.raw(numbers.arms[0]).games
    return list(range(len(games))) if len(games) <= _ROWS else [None]


@in_house_style
def draw_momentum(numbers: StudyNumbers) -> Figure:
    """A row of panels per game; a level line is an arm that reads no running statistics."""
    places = _places(numbers)
    figure = new_figure(10.0, 0.9 + 2.7 * len(places))
    note_missing(figure, numbers.missing_note(numbers.utds, compares_games=places == [None]))
    grid = figure.subplots(len(places), len(MEASURES), squeeze=False)
    for game, row in zip(places, grid, strict=True):
        for axes, measure in zip(row, MEASURES, strict=True):
            momentum_panel(axes, numbers, measure, game)
    for axes in grid[-1]:
        axes.set_xlabel(MOMENTUM_AXIS)
    figure.legend(**momentum_legend(numbers), loc="outside right upper")
    return figure


def momentum_legend(numbers: StudyNumbers) -> dict:
    """Options of a legend for matplotlib."""
    spread = "95% intervals" if numbers.has_intervals else "one seed"
    if _places(numbers) != [None]:
        spread = seed_mean_words(numbers).removesuffix(" over seeds")
    return {
        "handles": [
            Line2D([], [], **style.line, **_points(sweep, style), linewidth=1.8)
            for sweep, style in _styled(numbers)
        ],
        "labels": [sweep.label for sweep in numbers.sweeps],
        "title": f"{spread}\nlevel: reads no running statistics\n★ Flax's default momentum",
        "alignment": "left",
        "frameon": False,
        "handlelength": 3,
    }


def _styled(numbers: StudyNumbers) -> list[tuple[Sweep, ArmStyle]]:
    styles = styles_of([sweep.look for sweep in numbers.sweeps])
    return list(zip(numbers.sweeps, styles, strict=True))


def momentum_panel(axes: Axes, numbers: StudyNumbers, measure: str, game: int | None) -> None:
    """Raw returns of one game by one measure, or the IQM over games if `game` is None."""
    games = numbers.raw(numbers.arms[0]).games
    momenta = sorted({m for sweep in numbers.sweeps for m in sweep.by_momentum if m is not None})
    for sweep, style in _styled(numbers):
        _draw_sweep(axes, numbers, sweep, style, measure, game, momenta)
    compared = len(numbers.compared.study.games)
    name = f"IQM of {compared} games" if game is None else game_title(games[game])
    axes.set_title(f"{name}: {MEASURE_NAMES[measure]}", **TITLE)
    axes.set_xticks(range(len(momenta)), [f"{momentum:g}" for momentum in momenta])
    axes.set_xlim(-0.3, len(momenta) - 0.7)
    axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    axes.set_ylabel(numbers.unit if game is None else "return (raw)")


def _draw_sweep(
    axes: Axes,
    numbers: StudyNumbers,
    sweep: Sweep,
    style: ArmStyle,
    measure: str,
    game: int | None,
    momenta: list[float],
) -> None:
    if None in sweep.by_momentum:
        level = _interval(numbers, sweep.by_momentum[None], measure, game)
        axes.axhspan(level.low, level.high, color=style.colour, alpha=0.12, linewidth=0)
        axes.axhline(level.point, **style.line, linewidth=1.5)
        return
    there = [momentum for momentum in momenta if momentum in sweep.by_momentum]
    places = [momenta.index(momentum) for momentum in there]
    band = along([_interval(numbers, sweep.by_momentum[m], measure, game) for m in there])
    draw_band(axes, places, band, style, **style.points, markersize=5)
    throughout = reads_throughout(next(iter(sweep.by_momentum.values())), numbers.results.study)
    if throughout and DEFAULT_MOMENTUM in there:
        place = there.index(DEFAULT_MOMENTUM)
        star: dict[str, Any] = {
            "marker": "*",
            "markersize": 15,
            "markeredgecolor": "white",
            "zorder": 5,
        }
        axes.plot(places[place], band.point[place], color=style.colour, **star)


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


def _points(sweep: Sweep, style: ArmStyle) -> dict:
    return {} if None in sweep.by_momentum else style.points
