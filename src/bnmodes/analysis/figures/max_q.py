"""The mean max-Q of every arm while it learns, by game."""

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from bnmodes.analysis.captions import diverged_words, intervals_as
from bnmodes.analysis.figures.diagnostic_curves import finish, handles
from bnmodes.analysis.figures.figure import Drawing, study_figure
from bnmodes.analysis.figures.style import (
    TITLE,
    draw_band,
    game_title,
    in_house_style,
    new_figure,
    note_missing,
)
from bnmodes.analysis.figures.time_axis import horizontal
from bnmodes.analysis.mechanism import max_q
from bnmodes.analysis.statistics import Band, mean
from bnmodes.analysis.study_numbers import StudyNumbers

ROLES = ("bootstrap", "predict")
_MOST_GAMES = 4
"""That have a column of their own; the values of more are averaged."""
_RUNAWAY = 5
"""So many times the largest value of the other arms' median is too much for a linear axis."""


@study_figure(place=7.5)
def max_q_curves(numbers: StudyNumbers) -> Iterator[Drawing]:
    figure = draw_max_q(numbers)
    if figure is not None:
        cut = ", and bands are cut where the curves end" if numbers.has_intervals else ""
        caption = (
            "Mean max-Q of every arm while it learns, with the statistics that each role really "
            "uses: of the next observations at the bootstrap, of the observations at prediction. "
            f"Mean over seeds (of more than {_MOST_GAMES} games, over these too); "
            f"{intervals_as(numbers, 'bands: {}')}. A higher max-Q without a higher return may be "
            "overestimation. Where one arm runs away the axis is linear up to the grey line and "
            f"logarithmic beyond{cut}."
        ) + diverged_words(numbers, [arm for _, arm in numbers.arms_at(numbers.utds[0])])
        yield Drawing("max-q", figure, caption)


@in_house_style
def draw_max_q(numbers: StudyNumbers) -> Figure | None:
    """At the smallest UTD; None where no role's was measured."""
    arms = numbers.arms_at(numbers.utds[0])
    roles = [role for role in ROLES if any(max_q(numbers, arm, role) for _, arm in arms)]
    if not roles:
        return None
    games = numbers.compared.study.games
    columns = list(range(len(games))) if len(games) <= _MOST_GAMES else [None]
    figure = new_figure(3.1 * len(columns) + 2.2, 0.6 + 2.6 * len(roles))
    note_missing(figure, numbers.missing_note(numbers.utds[:1]))
    grid = figure.subplots(len(roles), len(columns), squeeze=False)
    for row, role in zip(grid, roles, strict=True):
        for axes, game in zip(row, columns, strict=True):
            bands = []
            for _, arm in arms:
                found = max_q(numbers, arm, role)
                if found is None:
                    continue
                values = found.values if game is None else found.values[game : game + 1]
                if not np.isnan(values).all():
                    x = horizontal(numbers, found.decisions)
                    band = numbers.band(values, mean)
                    draw_band(axes, x, band, numbers.style(arm))
                    bands.append(band)
            name = f"{len(games)} games" if game is None else game_title(games[game])
            axes.set_title(f"{name}: {role}", **TITLE)
            _compress_runaways(axes, bands)
            finish(axes, numbers)
        row[0].set_ylabel("mean max-Q")
    figure.legend(
        handles=handles(numbers, arms),
        labels=[line.label for line, _ in arms],
        loc="outside right upper",
        frameon=False,
        handlelength=3,
    )
    return figure


def _compress_runaways(axes: Axes, bands: Sequence[Band]) -> None:
    """Where a line or its band is far above most others, an axis that is linear as far as most
    of these reach."""
    if len(bands) < 2:
        return
    lines = [band.point for band in bands]
    peaks = sorted(float(np.nanmax(np.abs(line))) for line in lines)
    usual = float(np.median(peaks[:-1]))
    reaches = [float(np.nanmax(np.abs([band.low, band.high]))) for band in bands]
    if not max(reaches) > _RUNAWAY * usual > 0:
        return
    linear_until = _round_up(usual)
    axes.set_yscale("symlog", linthresh=linear_until, linscale=1.5)
    lowest = min(0.0, *(float(np.nanmin(line)) for line in lines))
    top = 1.5 * max(*peaks, linear_until)
    axes.set_ylim(1.2 * lowest, top)
    steps = (1, 2, 5) if top < 100 * linear_until else (1,)
    decades = 10.0 ** np.arange(12)
    beyond = [s * d * linear_until for d in decades for s in steps if s * d * linear_until < top]
    inside = [share * linear_until for share in (0.25, 0.5, 0.75)]
    below = [-tick for tick in (*inside, *beyond) if -tick >= lowest]
    axes.set_yticks([*below, 0, *inside, *beyond])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,g}".replace("-", "−")))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.axhline(linear_until, color="#bbbbbb", linewidth=0.7, zorder=0.5)


def _round_up(value: float) -> float:
    """To 1, 2, 4, 6, 8 or 10 times a power of ten."""
    decade = 10.0 ** np.floor(np.log10(value))
    return float(next(step * decade for step in (1, 2, 4, 6, 8, 10) if value <= step * decade))
