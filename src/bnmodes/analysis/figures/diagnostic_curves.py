"""What the figures of measured quantities share: bands over training, floors, and a legend."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from bnmodes.analysis.arms import Series
from bnmodes.analysis.figures.style import draw_band
from bnmodes.analysis.figures.time_axis import finish_horizontal, horizontal, time_unit
from bnmodes.analysis.mechanism import Measured
from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.studies.study import Arm


def draw_measured(
    axes: Axes, numbers: StudyNumbers, line: Series, arm: Arm, found: Measured | None
) -> None:
    """The mean over games."""
    if found is not None:
        x = horizontal(numbers, found.decisions)
        draw_band(axes, x, found.mean, numbers.style(arm), label=line.label)


def draw_floor(axes: Axes, numbers: StudyNumbers, found: Measured | None) -> None:
    """What sampling noise alone would show."""
    if found is not None:
        x, y = horizontal(numbers, found.decisions), np.nanmean(found.values, axis=(0, 1))
        axes.plot(x, y, color="#999999", linewidth=1, linestyle=":", zorder=0.5)


def finish(axes: Axes, numbers: StudyNumbers) -> None:
    axes.set_xlabel(time_unit(numbers))
    if axes.get_yscale() == "linear":
        lowest = axes.dataLim.ymin
        axes.set_ylim(bottom=0 if lowest >= 0 else axes.get_ylim()[0])
    finish_horizontal(axes, numbers)


def handles(numbers: StudyNumbers, arms: Sequence[tuple[Series, Arm]]) -> list[Line2D]:
    return [Line2D([], [], **numbers.style(arm).line, linewidth=2) for _, arm in arms]
