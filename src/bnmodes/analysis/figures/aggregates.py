"""Median, IQM, mean and optimality gap of every arm's final score, with intervals."""

from collections.abc import Iterator

from matplotlib.figure import Figure

from bnmodes.analysis.captions import intervals_as
from bnmodes.analysis.figures.figure import Drawing, study_figure
from bnmodes.analysis.figures.style import TITLE, in_house_style, new_figure, note_missing
from bnmodes.analysis.statistics import AGGREGATES
from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.analysis.wording import games_and_seeds

PANELS = ("median", "IQM", "mean", "optimality gap")


@study_figure(place=6)
def aggregates(numbers: StudyNumbers) -> Iterator[Drawing]:
    at_utd = f" at {name}" if (name := numbers.utd_name(numbers.utds[0])) else ""
    study = numbers.compared.study
    caption = (
        f"Four aggregates of the final score{at_utd}, over {games_and_seeds(study)}; "
        f"{intervals_as(numbers, 'boxes: {}')}. The optimality gap is how far runs stay below 1 "
        "on average: lower is better."
    )
    yield Drawing("aggregates", draw_aggregates(numbers), caption)


@in_house_style
def draw_aggregates(numbers: StudyNumbers) -> Figure:
    """A panel per aggregate and a row per arm at the smallest UTD: point and 95% interval."""
    utd = numbers.utds[0]
    arms = numbers.arms_at(utd)
    figure = new_figure(11.0, 1.2 + 0.3 * len(arms))
    note_missing(figure, numbers.missing_note([utd]))
    panels = figure.subplots(1, len(PANELS), sharey=True)
    for axes, name in zip(panels, PANELS, strict=True):
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
