"""Inside the networks while they learn: representation, and the mismatch of stored moments."""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bnmodes.analysis.figures.style import (
    TITLE,
    ArmStyle,
    arm_style,
    in_house_style,
    new_figure,
    note_missing,
)
from bnmodes.analysis.figures.time_axis import finish_horizontal, horizontal, time_unit
from bnmodes.analysis.mechanism import (
    DORMANT,
    POLICY_ROLES,
    RANK,
    VALUE_ROLES,
    Measured,
    batchnorm_arms,
    greedy_changed,
    halves_shift,
    measured,
    q_changed,
    shift,
)
from bnmodes.analysis.statistics import Band
from bnmodes.analysis.study_numbers import Series, StudyNumbers
from bnmodes.studies.study import Arm


@in_house_style
def draw_representation(numbers: StudyNumbers) -> Figure | None:
    """Dormant fraction and effective rank, a row per UTD; None where nothing was measured."""
    names = {DORMANT: "Dormant units (τ = 0.025)", RANK: "Effective rank of the features"}
    if not any(measured(numbers, arm, RANK) for arm in numbers.arms):
        return None
    figure = new_figure(10.0, 0.5 + 2.9 * len(numbers.utds))
    note_missing(figure, numbers.missing_note(numbers.utds))
    grid = figure.subplots(len(numbers.utds), 2, squeeze=False)
    for row, utd in zip(grid, numbers.utds, strict=True):
        for axes, (pattern, name) in zip(row, names.items(), strict=True):
            for line, arm in numbers.arms_at(utd):
                _draw(axes, numbers, line, measured(numbers, arm, pattern))
            axes.set_title(", ".join(filter(None, (name, numbers.utd_name(utd)))), **TITLE)
            _finish(axes, numbers)
    _legend(figure, [line for line, _ in numbers.arms_at(numbers.utds[0])])
    return figure


@in_house_style
def draw_mismatch(numbers: StudyNumbers) -> Figure | None:
    """Of the BatchNorm arms at the smallest UTD; None where nothing was measured.

    An actor-critic has a second band, of its policy's roles and of the halves of its joined rows.
    """
    utd, with_moments = numbers.utds[0], batchnorm_arms(numbers)
    arms = [(line, arm) for line, arm in numbers.arms_at(utd) if arm in with_moments]
    bands = [
        roles
        for roles in (VALUE_ROLES, POLICY_ROLES)
        if any(shift(numbers, arm, role) for _, arm in arms for role in roles)
    ]
    if not bands:
        return None
    figure = new_figure(10.0 + 3.0 * len(bands), 5.6 * len(bands))
    note_missing(figure, numbers.missing_note([utd]))
    grid = figure.subplots(2 * len(bands), 1 + len(VALUE_ROLES))
    for band, roles in enumerate(bands):
        for column, role in enumerate(roles, start=1):
            _role(numbers, arms, role, *grid[2 * band : 2 * band + 2, column])
    for line, arm in arms:
        scores, band = numbers.scores(arm), numbers.curve(arm)
        _fill(grid[0, 0], line, horizontal(numbers.results.study, scores.decisions), band)
    grid[0, 0].set_title("Score", **TITLE)
    _finish(grid[0, 0], numbers)
    _arms_and_floor(grid[1, 0], numbers, [line for line, _ in arms])
    if len(bands) == 2:
        for line, arm in arms:
            _draw(grid[2, 0], numbers, line, halves_shift(numbers, arm))
            _draw_floor(grid[2, 0], numbers, halves_shift(numbers, arm, floor=True))
        _logarithmic(grid[2, 0], "(s, a) against (s′, a′): mean shift (σ)", numbers)
        grid[3, 0].axis("off")
    return figure


def _role(
    numbers: StudyNumbers, arms: list[tuple[Series, Arm]], role: str, top: Axes, bottom: Axes
) -> None:
    """How far stored moments are off, and what that changes: actions, or a critic's values."""
    chooses = any(greedy_changed(numbers, arm, role) for _, arm in arms)
    changed = greedy_changed if chooses else q_changed
    for line, arm in arms:
        _draw(top, numbers, line, shift(numbers, arm, role))
        _draw_floor(top, numbers, shift(numbers, arm, role, floor=True))
        _draw(bottom, numbers, line, changed(numbers, arm, role))
    _logarithmic(top, f"{role}: mean shift (σ)", numbers)
    if chooses:
        bottom.set_title(f"{role}: greedy actions changed", **TITLE)
        bottom.yaxis.set_major_formatter(lambda y, _: f"{y:.0%}")
    else:
        bottom.set_title(f"{role}: mean |change of Q|", **TITLE)
    _finish(bottom, numbers)


def _logarithmic(axes: Axes, title: str, numbers: StudyNumbers) -> None:
    axes.set_title(title, **TITLE)
    axes.set_yscale("log")
    _finish(axes, numbers)


def _arms_and_floor(axes: Axes, numbers: StudyNumbers, lines: list[Series]) -> None:
    axes.axis("off")
    axes.legend(
        handles=[
            *(Line2D([], [], **_style(line).line, linewidth=2) for line in lines),
            Line2D([], [], color="#999999", linewidth=1, linestyle=":"),
        ],
        labels=[*(line.label for line in lines), "sampling noise of that many rows"],
        loc="center",
        frameon=False,
        handlelength=3,
        title=numbers.utd_name(numbers.utds[0]) or None,
    )


def _draw(axes: Axes, numbers: StudyNumbers, line: Series, found: Measured | None) -> None:
    if found is not None:
        _fill(
            axes,
            line,
            horizontal(numbers.results.study, found.decisions),
            found.band(numbers.resamples),
        )


def _fill(axes: Axes, line: Series, x: np.ndarray, band: Band) -> None:
    style = _style(line)
    axes.fill_between(x, band.low, band.high, color=style.colour, alpha=0.14, linewidth=0)
    marker = "o" if len(x) == 1 else None
    axes.plot(x, band.point, **style.line, linewidth=1.6, marker=marker, label=line.label)


def _draw_floor(axes: Axes, numbers: StudyNumbers, found: Measured | None) -> None:
    if found is not None:
        x, y = (
            horizontal(numbers.results.study, found.decisions),
            np.nanmean(found.values, axis=(0, 1)),
        )
        axes.plot(x, y, color="#999999", linewidth=1, linestyle=":", zorder=0.5)


def _finish(axes: Axes, numbers: StudyNumbers) -> None:
    axes.set_xlabel(time_unit(numbers.results.study))
    if axes.get_yscale() == "linear":
        axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    finish_horizontal(axes, numbers.results.study)


def _legend(figure: Figure, lines: list[Series]) -> None:
    figure.legend(
        handles=[Line2D([], [], **_style(line).line, linewidth=2) for line in lines],
        labels=[line.label for line in lines],
        loc="outside right upper",
        title="mean over games,\n95% intervals",
        alignment="left",
        frameon=False,
        handlelength=3,
    )


def _style(line: Series) -> ArmStyle:
    return arm_style(line.base, line.variant)


DIAGNOSTIC_FIGURES: dict[str, Callable[[StudyNumbers], Figure | None]] = {
    "mismatch": draw_mismatch,
    "representation": draw_representation,
}
