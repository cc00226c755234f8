"""AUC and final IQM against updates per decision."""

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
    mark_reference,
    new_figure,
    note_missing,
)
from bnmodes.analysis.statistics import along
from bnmodes.analysis.study_numbers import MEASURE_NAMES, MEASURES, StudyNumbers
from bnmodes.errors import UsageError


@study_figure(place=2)
def scaling(numbers: StudyNumbers) -> Iterator[Drawing]:
    if len(numbers.utds) > 1:
        caption = (
            "AUC and final IQM against updates per decision, over "
            f"{compared_words(numbers)}; {intervals_as(numbers, 'bands: {}')}."
        )
        yield Drawing("scaling", draw_scaling(numbers), caption)


@in_house_style
def draw_scaling(numbers: StudyNumbers) -> Figure:
    """A line for each configuration, a panel per measure."""
    if len(numbers.utds) < 2:
        raise UsageError("no arm varies its updates per decision: scaling needs a study that does.")
    figure = new_figure(9.5, 3.8)
    note_missing(figure, numbers.missing_note(numbers.utds))
    panels = list(figure.subplots(1, 2))
    for axes, measure in zip(panels, MEASURES, strict=True):
        scaling_panel(axes, numbers, measure)
    label_line_ends(panels)
    return figure


def scaling_panel(axes: Axes, numbers: StudyNumbers, measure: str) -> None:
    """IQM by one measure against UTD; the lines are still to be labelled at their ends."""
    for line in numbers.series:
        utds = sorted(line.by_utd)
        style = numbers.style(line.by_utd[utds[0]])
        intervals = [numbers.relative(line.by_utd[utd], measure) for utd in utds]
        look = style.points | {"markersize": 5, "label": line.label, "clip_on": False}
        draw_band(axes, [numbers.utds.index(utd) for utd in utds], along(intervals), style, **look)
    mark_reference(axes.axhline, numbers, measure)
    axes.set_title(f"{MEASURE_NAMES[measure]} IQM against UTD", **TITLE)
    axes.set_xlabel("updates per decision (UTD)")
    axes.set_ylabel(numbers.relative_unit(measure))
    axes.set_xticks(range(len(numbers.utds)), [f"{utd:g}" for utd in numbers.utds])
    axes.set_xlim(-0.15, len(numbers.utds) - 0.85)
    if axes.get_ylim()[0] > 0 or axes.dataLim.y0 >= 0:
        axes.set_ylim(bottom=0)
