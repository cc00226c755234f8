"""How far running statistics are from those of the rows that each forward gets."""

from collections.abc import Iterator

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from bnmodes.analysis.arms import Series, utd_of
from bnmodes.analysis.captions import diverged_words, intervals_as
from bnmodes.analysis.figures.diagnostic_curves import (
    draw_floor,
    draw_measured,
    finish,
    handles,
)
from bnmodes.analysis.figures.figure import Drawing, study_figure
from bnmodes.analysis.figures.style import (
    TITLE,
    draw_band,
    in_house_style,
    new_figure,
    note_missing,
    plain_log_ticks,
)
from bnmodes.analysis.figures.time_axis import horizontal
from bnmodes.analysis.mechanism import (
    POLICY_ROLES,
    VALUE_ROLES,
    batchnorm_arms,
    greedy_changed,
    halves_shift,
    q_changed,
    shift,
)
from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.studies.study import Arm


@study_figure(place=7)
def mismatch(numbers: StudyNumbers) -> Iterator[Drawing]:
    figure = draw_mismatch(numbers)
    if figure is not None:
        at_utd = f", at {name}" if (name := numbers.utd_name(numbers.utds[0])) else ""
        caption = (
            "Does mismatch predict which arm fails? Running statistics against those of the rows "
            f"that each role really gets, in every BatchNorm arm{at_utd}, also where nothing reads "
            "them: what they would change there. Above: |difference of means| in standard "
            "deviations of the batch, median over channels, mean over layers and games; grey: what "
            "two batches of that size would show. Below: share of greedy actions that differ "
            "between running and batch statistics on the same rows; of a critic, which chooses "
            f"none, the mean change of Q. {intervals_as(numbers, 'Bands: {}')}."
        ) + diverged_words(
            numbers, [arm for arm in batchnorm_arms(numbers) if utd_of(arm) == numbers.utds[0]]
        )
        yield Drawing("mismatch", figure, caption)


@in_house_style
def draw_mismatch(numbers: StudyNumbers) -> Figure | None:
    """Of the BatchNorm arms at the smallest UTD; None where nothing was measured.

    An actor-critic has a second band, of its policy's roles and of the halves of its joined rows.
    """
    utd, with_batchnorm = numbers.utds[0], batchnorm_arms(numbers)
    arms = [(line, arm) for line, arm in numbers.arms_at(utd) if arm in with_batchnorm]
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
        x = horizontal(numbers, numbers.scores(arm).decisions)
        draw_band(grid[0, 0], x, numbers.curve(arm), numbers.style(arm), label=line.label)
    grid[0, 0].set_title("Score", **TITLE)
    finish(grid[0, 0], numbers)
    _legend(grid[1, 0], numbers, arms)
    if len(bands) == 2:
        for line, arm in arms:
            draw_measured(grid[2, 0], numbers, line, arm, halves_shift(numbers, arm))
            draw_floor(grid[2, 0], numbers, halves_shift(numbers, arm, floor=True))
        _logarithmic(grid[2, 0], "(s, a) against (s′, a′): mean shift (σ)", numbers)
        grid[3, 0].axis("off")
    return figure


def _role(
    numbers: StudyNumbers, arms: list[tuple[Series, Arm]], role: str, top: Axes, bottom: Axes
) -> None:
    """How far running statistics are off, and what that changes: actions, or a critic's values."""
    chooses = any(greedy_changed(numbers, arm, role) for _, arm in arms)
    changed = greedy_changed if chooses else q_changed
    for line, arm in arms:
        draw_measured(top, numbers, line, arm, shift(numbers, arm, role))
        draw_floor(top, numbers, shift(numbers, arm, role, floor=True))
        draw_measured(bottom, numbers, line, arm, changed(numbers, arm, role))
    _logarithmic(top, f"{role}: mean shift (σ)", numbers)
    if chooses:
        bottom.set_title(f"{role}: greedy actions changed", **TITLE)
        bottom.yaxis.set_major_formatter(lambda y, _: f"{y:.0%}")
    else:
        bottom.set_title(f"{role}: mean |change of Q|", **TITLE)
    finish(bottom, numbers)


def _logarithmic(axes: Axes, title: str, numbers: StudyNumbers) -> None:
    axes.set_title(title, **TITLE)
    axes.set_yscale("log")
    plain_log_ticks(axes)
    finish(axes, numbers)


def _legend(axes: Axes, numbers: StudyNumbers, arms: list[tuple[Series, Arm]]) -> None:
    axes.axis("off")
    axes.legend(
        handles=[
            *handles(numbers, arms),
            Line2D([], [], color="#999999", linewidth=1, linestyle=":"),
        ],
        labels=[*(line.label for line, _ in arms), "sampling noise of that many rows"],
        loc="center",
        frameon=False,
        handlelength=3,
        title=numbers.utd_name(numbers.utds[0]) or None,
    )
