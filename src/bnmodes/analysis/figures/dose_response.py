"""The gap between two arms against each factor of a screen, and what was measured in these runs."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bnmodes.analysis.captions import diverged_words, intervals_as
from bnmodes.analysis.figures.figure import Drawing, study_figure
from bnmodes.analysis.figures.style import (
    TITLE,
    error_bars,
    game_title,
    in_house_style,
    new_figure,
    note_missing,
)
from bnmodes.analysis.mechanism import Measured, greedy_changed, max_q, shift
from bnmodes.analysis.resampling import paired_difference
from bnmodes.analysis.screened import Factor, Level, Screen, screen_of
from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.studies.study import Arm

_NAMES = {
    "batch_size": "minibatch (transitions)",
    "protocol.predict.update": "online update weight α",
    "learning_rate": "learning rate",
    "torso": "network",
}
_GAME_MARKERS = ("o", "s", "^", "D", "v", "P")
_MEASURES: dict[str, Callable[[StudyNumbers, Arm, str], Measured | None]] = {
    "mean shift (σ)": shift,
    "greedy actions changed": greedy_changed,
    "mean max-Q": max_q,
}
"""Of the bootstrap forward."""


@study_figure(place=1.5)
def dose_response(numbers: StudyNumbers) -> Iterator[Drawing]:
    screen = screen_of(numbers.compared.study)
    if screen is None:
        return
    caption = (
        "Which factor opens the gap? Each column changes one setting of the baseline, whose level "
        f"is in every column. First row: AUC of {screen.arm.name} minus {screen.other.name} at "
        f"the same setting ({numbers.unit}), for each game the mean over seeds, in black the IQM "
        f"over games and seeds; {intervals_as(numbers, 'bars: {}')}. Below, of the bootstrap "
        "forward in the same runs, mean over training, games and seeds: how far running statistics "
        "are from those of the batch (|difference of means| in standard deviations), the share of "
        "greedy actions that they change or would change, and the mean max-Q; faint: each game."
    ) + diverged_words(numbers, list(numbers.arms))
    yield Drawing("dose-response", draw_dose_response(numbers, screen), caption)


@in_house_style
def draw_dose_response(numbers: StudyNumbers, screen: Screen) -> Figure:
    """A column for each factor; a row for the gap, and one for each quantity that was measured."""
    factors = screen.factors
    there = {name: of for name, of in _MEASURES.items() if of(numbers, screen.arm, "bootstrap")}
    figure = new_figure(2.6 * len(factors) + 2.0, 1.0 + 2.1 * (1 + len(there)))
    note_missing(figure, numbers.missing_note(numbers.utds))
    grid = figure.subplots(1 + len(there), len(factors), squeeze=False, sharey="row")
    for column, factor in zip(grid.T, factors, strict=True):
        gap_panel(column[0], numbers, factor)
        for axes, of in zip(column[1:], there.values(), strict=True):
            _measured_panel(axes, numbers, screen, factor, of)
        for axes in column:
            labels = [_words(level) for level in factor.levels]
            axes.set_xticks(range(len(labels)), labels)
            axes.set_xlim(-0.4, len(labels) - 0.6)
        column[0].set_title(_NAMES.get(factor.name, factor.name), **TITLE)
        column[-1].set_xlabel(_NAMES.get(factor.name, factor.name))
    grid[0, 0].set_ylabel("AUC gap")
    for axes, name in zip(grid[1:, 0], there, strict=True):
        axes.set_ylabel(name)
        axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    figure.legend(handles=_handles(numbers, screen), loc="outside right upper", frameon=False)
    return figure


def gap_panel(axes: Axes, numbers: StudyNumbers, factor: Factor) -> None:
    """AUC of one arm minus the other at each level: games, and all of them together."""
    places = range(len(factor.levels))
    gaps = np.array([_gaps(numbers, level) for level in factor.levels])  # [levels, games]
    for game, marker in zip(gaps.T, _markers(gaps.shape[1]), strict=True):
        axes.plot(places, game, color="#888888", linewidth=0.9, marker=marker, markersize=4)
    pooled = [
        paired_difference(
            numbers.values(level.arm, "auc"),
            numbers.values(level.other, "auc"),
            resamples=numbers.resamples,
            interval=numbers.interval_kind,
        )
        for level in factor.levels
    ]
    points = [interval.point for interval in pooled]
    axes.errorbar(
        places, points, error_bars(pooled), color="black", linewidth=1.8, capsize=3, marker="o"
    )
    axes.axhline(0, color="#222222", linewidth=0.9, linestyle=":", zorder=0.5)


def _gaps(numbers: StudyNumbers, level: Level) -> Float[np.ndarray, " games"]:
    gap = numbers.values(level.arm, "auc") - numbers.values(level.other, "auc")
    return np.nanmean(gap, axis=-1)


def _measured_panel(
    axes: Axes, numbers: StudyNumbers, screen: Screen, factor: Factor, of: Callable
) -> None:
    for side in ("other", "arm"):
        style = numbers.style(getattr(screen, side))
        places, means = [], []
        for place, level in enumerate(factor.levels):
            found = of(numbers, getattr(level, side), "bootstrap")
            if found is not None:
                places.append(place)
                means.append(np.nanmean(found.values, axis=(1, 2)))  # [games]
        if not places:
            continue
        by_game = np.array(means)  # [levels, games]
        for game, marker in zip(by_game.T, _markers(by_game.shape[1]), strict=True):
            axes.plot(
                places, game, color=style.colour, alpha=0.3, lw=0.8, marker=marker, markersize=3
            )
        axes.plot(places, by_game.mean(-1), **style.line, linewidth=1.8, **style.points)


def _markers(games: int) -> Sequence[str]:
    return [_GAME_MARKERS[game % len(_GAME_MARKERS)] for game in range(games)]


def _words(level: Level) -> str:
    return level.value if isinstance(level.value, str) else f"{level.value:g}"


def _handles(numbers: StudyNumbers, screen: Screen) -> list[Line2D]:
    games = numbers.compared.study.games
    return [
        Line2D([], [], color="black", marker="o", linewidth=1.8, label="gap, all games"),
        *(
            Line2D([], [], color="#888888", marker=marker, linewidth=0.9, label=game_title(game))
            for game, marker in zip(games, _markers(len(games)), strict=True)
        ),
        *(
            Line2D([], [], **numbers.style(arm).line, **numbers.style(arm).points, label=arm.name)
            for arm in (screen.other, screen.arm)
        ),
    ]
