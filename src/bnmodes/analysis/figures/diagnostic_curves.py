"""What the figures of measured quantities share: bands over training, floors, and a legend."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bnmodes.analysis.arms import Series
from bnmodes.analysis.figures.time_axis import finish_horizontal, horizontal, time_unit
from bnmodes.analysis.mechanism import Measured
from bnmodes.analysis.statistics import Band
from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.studies.study import Arm


def draw_measured(
    axes: Axes, numbers: StudyNumbers, line: Series, arm: Arm, found: Measured | None
) -> None:
    if found is not None:
        fill(axes, numbers, line, arm, found.decisions, found.band)


def fill(
    axes: Axes,
    numbers: StudyNumbers,
    line: Series,
    arm: Arm,
    decisions: Sequence[int],
    band: Band,
) -> None:
    style, x = numbers.style(arm), horizontal(numbers, decisions)
    axes.fill_between(x, band.low, band.high, color=style.colour, alpha=0.14, linewidth=0)
    marker = "o" if len(x) == 1 else None
    axes.plot(x, band.point, **style.line, linewidth=1.6, marker=marker, label=line.label)


def draw_floor(axes: Axes, numbers: StudyNumbers, found: Measured | None) -> None:
    """What sampling noise alone would show."""
    if found is not None:
        x, y = horizontal(numbers, found.decisions), np.nanmean(found.values, axis=(0, 1))
        axes.plot(x, y, color="#999999", linewidth=1, linestyle=":", zorder=0.5)


def finish(axes: Axes, numbers: StudyNumbers) -> None:
    axes.set_xlabel(time_unit(numbers))
    if axes.get_yscale() == "linear":
        axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    finish_horizontal(axes, numbers)


def handles(numbers: StudyNumbers, arms: Sequence[tuple[Series, Arm]]) -> list[Line2D]:
    return [Line2D([], [], **numbers.style(arm).line, linewidth=2) for _, arm in arms]


def side_legend(figure: Figure, numbers: StudyNumbers, arms: Sequence[tuple[Series, Arm]]) -> None:
    figure.legend(
        handles=handles(numbers, arms),
        labels=[line.label for line, _ in arms],
        loc="outside right upper",
        title="mean over games,\n95% intervals",
        alignment="left",
        frameon=False,
        handlelength=3,
    )
