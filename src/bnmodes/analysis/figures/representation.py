"""Dormant units and the effective rank of the features while learning."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.lines import Line2D

from bnmodes.analysis.captions import diverged_words, intervals_as
from bnmodes.analysis.figures.diagnostic_curves import finish
from bnmodes.analysis.figures.figure import Drawing, study_figure
from bnmodes.analysis.figures.style import (
    TITLE,
    draw_band,
    in_house_style,
    new_figure,
    note_missing,
)
from bnmodes.analysis.figures.time_axis import horizontal
from bnmodes.analysis.mechanism import DORMANT, POOLED, RANK, SRANK, measured
from bnmodes.analysis.statistics import iqm
from bnmodes.analysis.study_numbers import StudyNumbers

PANELS = {
    DORMANT: "Dormant units (τ = 0.025)",
    RANK: "Effective rank (entropy)",
    SRANK: "srank (99% of the spectrum)",
}

POOLED_LINE: dict[str, Any] = {"linewidth": 0.7, "marker": "+", "markersize": 4}


@study_figure(place=8)
def representation(numbers: StudyNumbers) -> Iterator[Drawing]:
    figure = draw_representation(numbers)
    if figure is not None:
        yield Drawing("representation", figure, representation_caption(numbers))


def representation_caption(numbers: StudyNumbers) -> str:
    return (
        "IQM over games and seeds of the share of hidden units whose mean activation is at most "
        "0.025 of their layer's, and of the rank of the centred features before the head, by the "
        "entropy of their singular values and as srank, the number of largest singular values that "
        "make up 99% of the sum. With the statistics of the predict forward. Ranks are of features "
        "that were computed in one batch; thin with +, where batch statistics make another: "
        "of minibatches that were normalised each by itself and pooled, which adds their noise. "
        f"{intervals_as(numbers, 'Bands: pointwise {}')}."
    ) + diverged_words(numbers, list(numbers.arms))


@in_house_style
def draw_representation(numbers: StudyNumbers) -> Figure | None:
    """Three panels, a row per UTD; None where nothing was measured."""
    if not any(measured(numbers, arm, RANK) for arm in numbers.arms):
        return None
    figure = new_figure(12.5, 0.5 + 2.9 * len(numbers.utds))
    note_missing(figure, numbers.missing_note(numbers.utds))
    grid = figure.subplots(len(numbers.utds), len(PANELS), squeeze=False)
    for row, utd in zip(grid, numbers.utds, strict=True):
        for axes, metric in zip(row, PANELS, strict=True):
            representation_panel(axes, numbers, utd, metric)
    side_legend(figure, numbers)
    return figure


def representation_panel(axes: Axes, numbers: StudyNumbers, utd: float, metric: str) -> None:
    for line, arm in numbers.arms_at(utd):
        style = numbers.style(arm, by_normaliser=True)
        if found := measured(numbers, arm, metric):
            x = horizontal(numbers, found.decisions)
            draw_band(axes, x, found.iqm, style, label=line.label)
        pooled = measured(numbers, arm, POOLED[metric]) if metric in POOLED else None
        if found and pooled and not np.array_equal(pooled.values, found.values, equal_nan=True):
            x, y = horizontal(numbers, pooled.decisions), iqm(np.moveaxis(pooled.values, -1, 0))
            axes.plot(x, y, color=style.colour, **POOLED_LINE)
    axes.set_title(", ".join(filter(None, (PANELS[metric], numbers.utd_name(utd)))), **TITLE)
    axes.set_ylabel("IQM")
    finish(axes, numbers)


def side_legend(figure: FigureBase, numbers: StudyNumbers) -> None:
    arms = numbers.arms_at(numbers.utds[0])
    lines = [
        Line2D([], [], **numbers.style(arm, by_normaliser=True).line, linewidth=2)
        for _, arm in arms
    ]
    figure.legend(
        [*lines, Line2D([], [], color="#555555", **POOLED_LINE)],
        [*(line.label for line, _ in arms), "pooled minibatches"],
        loc="outside right upper",
        title="IQM, 95% intervals" if numbers.has_intervals else "IQM",
        alignment="left",
        frameon=False,
        handlelength=3,
    )
