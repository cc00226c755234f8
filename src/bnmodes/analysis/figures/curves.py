"""The IQM over games while learning."""

from collections.abc import Iterator

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bnmodes.analysis.captions import compared_words, intervals_as
from bnmodes.analysis.figures.figure import Drawing, study_figure
from bnmodes.analysis.figures.style import (
    TITLE,
    draw_band,
    in_house_style,
    label_line_ends,
    label_lowest,
    new_figure,
    note_missing,
)
from bnmodes.analysis.figures.time_axis import finish_horizontal, horizontal, time_unit
from bnmodes.analysis.palette import PUBLISHED, ArmStyle
from bnmodes.analysis.published_arms import published_curve
from bnmodes.analysis.study_numbers import StudyNumbers


@study_figure(place=4)
def curves(numbers: StudyNumbers) -> Iterator[Drawing]:
    scales = " Each panel has its own vertical scale." if len(numbers.utds) > 1 else ""
    caption = (
        f"IQM while learning ({numbers.unit}), over {compared_words(numbers)}; "
        f"{intervals_as(numbers, 'bands: {}, whole runs resampled')}.{scales}"
        + " Dotted grey: published by others."
        * any(arm.scores for arm in numbers.published)
    )
    yield Drawing("curves", draw_curves(numbers), caption)


@in_house_style
def draw_curves(numbers: StudyNumbers) -> Figure:
    """A panel per UTD."""
    columns = min(3, len(numbers.utds))
    rows = -(-len(numbers.utds) // columns)
    figure = new_figure(2.2 + 3.4 * columns if columns > 1 else 7.5, 0.6 + 2.7 * rows + (rows < 2))
    note_missing(figure, numbers.missing_note(numbers.utds))
    grid = figure.subplots(rows, columns, squeeze=False)
    panels = list(grid.flat[: len(numbers.utds)])
    for axes in grid.flat[len(numbers.utds) :]:
        axes.remove()
    for axes, utd in zip(panels, numbers.utds, strict=True):
        curves_panel(axes, numbers, utd)
    label_lowest(panels, columns, time_unit(numbers))
    figure.supylabel(f"IQM of {numbers.unit}", fontsize=9)
    label_line_ends(panels, fontsize=7.5 if columns > 1 else 8.5)
    return figure


def curves_panel(axes: Axes, numbers: StudyNumbers, utd: float) -> None:
    """The arms at one UTD; the lines are still to be labelled at their ends."""
    for line, arm in numbers.arms_at(utd):
        x = horizontal(numbers, numbers.scores(arm).decisions)
        look = {"label": line.label, "clip_on": False}
        draw_band(axes, x, numbers.curve(arm), numbers.style(arm), **look)
    for other in numbers.published if utd == numbers.utds[0] else ():
        if found := published_curve(numbers, other):
            x = horizontal(numbers, found[0])
            style = ArmStyle(PUBLISHED, (0, (1, 1)))
            draw_band(axes, x, found[1], style, label=other.label(numbers), clip_on=False)
    axes.set_title(numbers.utd_name(utd), **TITLE)
    if numbers.human and axes.get_ylim()[1] >= 1:
        axes.axhline(1, color="#222222", linewidth=0.9, linestyle=":", zorder=0.5)
        axes.annotate("human", (0, 1), (3, 2), textcoords="offset points", fontsize=7.5)
    finish_horizontal(axes, numbers)
