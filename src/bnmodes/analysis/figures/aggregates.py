"""Median, IQM, mean and optimality gap of every arm's final score, with intervals.

The optimality gap is how far runs stay below 1: of human-normalised scores, below a human's. Scores
in units of a reference arm have no such 1.
"""

from collections.abc import Iterator

from matplotlib.figure import Figure

from bnmodes.analysis.captions import compared_words, intervals_as
from bnmodes.analysis.figures.figure import Drawing, study_figure
from bnmodes.analysis.figures.style import TITLE, in_house_style, new_figure, note_missing
from bnmodes.analysis.statistics import AGGREGATES
from bnmodes.analysis.study_numbers import StudyNumbers

PANELS = ("median", "IQM", "mean")
GAP = "optimality gap"


@study_figure(place=6)
def aggregates(numbers: StudyNumbers) -> Iterator[Drawing]:
    at_utd = f" at {name}" if (name := numbers.utd_name(numbers.utds[0])) else ""
    gap = " The optimality gap is how far runs stay below 1 on average: lower is better."
    caption = (
        f"Aggregates of the final score{at_utd}, over {compared_words(numbers)}; "
        f"{intervals_as(numbers, 'boxes: {}')}.{gap * numbers.human}"
    )
    yield Drawing("aggregates", draw_aggregates(numbers), caption)


@in_house_style
def draw_aggregates(numbers: StudyNumbers) -> Figure:
    """A panel per aggregate and a row per arm at the smallest UTD: point and 95% interval."""
    utd = numbers.utds[0]
    arms = numbers.arms_at(utd)
    names = (*PANELS, GAP) if numbers.human else PANELS
    figure = new_figure(2.75 * len(names), 1.2 + 0.3 * len(arms))
    note_missing(figure, numbers.missing_note([utd]))
    panels = figure.subplots(1, len(names), sharey=True)
    for axes, name in zip(panels, names, strict=True):
        for place, (_, arm) in enumerate(arms):
            interval = numbers.interval(arm, "final", AGGREGATES[name])
            colour = numbers.style(arm).colour
            width = interval.high - interval.low
            axes.barh(place, width, 0.6, interval.low, color=colour, alpha=0.45, linewidth=0)
            axes.vlines(interval.point, place - 0.3, place + 0.3, color="#222222", linewidth=1.6)
        axes.set_title(name[0].upper() + name[1:], **TITLE)
        axes.tick_params(axis="y", length=0)
        axes.use_sticky_edges = False  # a bar would keep its margin to itself
        axes.margins(x=0.08)
    panels[0].set_yticks(range(len(arms)), [line.label for line, _ in arms])
    panels[0].set_ylim(len(arms) - 0.5, -0.5)  # the first arm on top
    figure.supxlabel(f"final {numbers.unit}", fontsize=9)
    return figure
