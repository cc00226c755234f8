"""AUC and final IQM of every arm as bars."""

from collections.abc import Iterator
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bnmodes.analysis.captions import compared_words, intervals_as
from bnmodes.analysis.figures.figure import Drawing, study_figure
from bnmodes.analysis.figures.style import (
    TITLE,
    error_bars,
    in_house_style,
    mark_reference,
    new_figure,
    note_missing,
)
from bnmodes.analysis.palette import PUBLISHED, ArmStyle
from bnmodes.analysis.published_arms import published_interval
from bnmodes.analysis.statistics import Interval
from bnmodes.analysis.study_numbers import MEASURE_NAMES, MEASURES, StudyNumbers


@study_figure(place=1)
def bars(numbers: StudyNumbers) -> Iterator[Drawing]:
    at_utd = f" at {name}" if (name := numbers.utd_name(numbers.utds[0])) else ""
    dotted = "; dotted: the point estimate of " if numbers.reference_point("auc") else ""
    study = numbers.compared.study
    caption = (
        f"AUC and final IQM{at_utd}, over {compared_words(numbers)}. "
        f"{intervals_as(numbers, 'Bars with {}')}{dotted}{study.reference if dotted else ''}."
        + _published_words(numbers)
    )
    narrow = draw_bars(numbers, stacked=True)
    yield Drawing("bars", draw_bars(numbers), caption, narrow)


def _published_words(numbers: StudyNumbers) -> str:
    if not numbers.published:
        return ""
    if not any(arm.is_of_other_games(numbers) for arm in numbers.published):
        return " Hatched: published by others."
    return (
        " Hatched: published by others; where a label has a number of games, over so many, not "
        "those of the study's own bars."
    )


@in_house_style
def draw_bars(numbers: StudyNumbers, *, stacked: bool = False) -> Figure:
    """A row per arm at the smallest UTD; a panel per measure, side by side or one above another."""
    utd = numbers.utds[0]
    height = 1.15 + 0.36 * (len(numbers.arms_at(utd)) + len(numbers.published))
    figure = new_figure(4.6, 2 * height) if stacked else new_figure(9.0, height)
    note_missing(figure, numbers.missing_note([utd]))
    panels = list(figure.subplots(*((2, 1) if stacked else (1, 2)), sharey=True))
    for axes, measure in zip(panels, MEASURES, strict=True):
        bars_panel(axes, numbers, measure)
    return figure


def bars_panel(axes: Axes, numbers: StudyNumbers, measure: str) -> None:
    """IQM by one measure, a bar for each arm at the smallest UTD."""
    utd = numbers.utds[0]
    arms = numbers.arms_at(utd)
    at_utd = f" at {name}" if (name := numbers.utd_name(utd)) else ""
    bars: list[tuple[str, Interval | None, dict[str, Any]]] = [
        (line.label, numbers.relative(arm, measure), _look(numbers.style(arm)))
        for line, arm in arms
    ]
    of_others = {"facecolor": "white", "edgecolor": PUBLISHED, "hatch": "xxx", "linewidth": 0.8}
    bars += [
        (arm.label(numbers), published_interval(numbers, arm, measure), of_others)
        for arm in numbers.published
    ]
    for place, (_, interval, look) in enumerate(bars):
        if interval is None:
            continue
        axes.barh(
            place,
            interval.point,
            height=0.68,
            xerr=error_bars([interval]) if interval.low < interval.high else None,
            error_kw={"ecolor": "#222222", "elinewidth": 1.2, "capsize": 3},
            **look,
        )
        axes.annotate(
            f"{interval.point:.0f}" if abs(interval.point) >= 10 else f"{interval.point:.2g}",
            (max(interval.point, interval.high, 0), place),
            xytext=(6, 0),
            textcoords="offset points",
            verticalalignment="center",
            fontsize=8.5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
    mark_reference(axes.axvline, numbers, measure)
    axes.set_title(f"{MEASURE_NAMES[measure]} IQM{at_utd}", **TITLE)
    axes.set_xlabel(numbers.relative_unit(measure))
    axes.set_yticks(range(len(bars)), [label for label, _, _ in bars])
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.1)
    if min(min(each.point, each.low) for _, each, _ in bars if each) >= 0:
        axes.set_xlim(left=0)
    axes.set_ylim(len(bars) - 0.5, -0.5)  # the first arm on top


def _look(style: ArmStyle) -> dict[str, Any]:
    return {
        "color": style.colour,
        "alpha": 0.55 if style.projected else 0.85,
        "hatch": "///" if style.projected else None,
        "edgecolor": "white",
        "linewidth": 0,
    }
