"""The mean max-Q of every arm while it learns, by game."""

from collections.abc import Iterator

import numpy as np
from matplotlib.figure import Figure

from bnmodes.analysis.captions import intervals_as
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
from bnmodes.analysis.statistics import mean
from bnmodes.analysis.study_numbers import StudyNumbers

ROLES = ("bootstrap", "predict")
_MOST_GAMES = 4
"""That have a column of their own; the values of more are averaged."""


@study_figure(place=7.5)
def max_q_curves(numbers: StudyNumbers) -> Iterator[Drawing]:
    figure = draw_max_q(numbers)
    if figure is not None:
        caption = (
            "Mean max-Q of every arm while it learns, with the statistics that each role really "
            "uses: of the next observations at the bootstrap, of the observations at prediction. "
            f"Mean over seeds (of more than {_MOST_GAMES} games, over these too); "
            f"{intervals_as(numbers, 'bands: {}')}. A higher max-Q without a higher return may be "
            "overestimation."
        )
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
            for _, arm in arms:
                found = max_q(numbers, arm, role)
                if found is None:
                    continue
                values = found.values if game is None else found.values[game : game + 1]
                if not np.isnan(values).all():
                    x = horizontal(numbers, found.decisions)
                    draw_band(axes, x, numbers.band(values, mean), numbers.style(arm))
            name = f"{len(games)} games" if game is None else game_title(games[game])
            axes.set_title(f"{name}: {role}", **TITLE)
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
