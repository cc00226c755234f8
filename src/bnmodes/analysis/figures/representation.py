"""Dormant units and the effective rank of the features while learning."""

from collections.abc import Iterator

from matplotlib.figure import Figure

from bnmodes.analysis.figures.diagnostic_curves import draw_measured, finish, side_legend
from bnmodes.analysis.figures.figure import Drawing, study_figure
from bnmodes.analysis.figures.style import TITLE, in_house_style, new_figure, note_missing
from bnmodes.analysis.mechanism import DORMANT, RANK, measured
from bnmodes.analysis.study_numbers import StudyNumbers


@study_figure(place=8)
def representation(numbers: StudyNumbers) -> Iterator[Drawing]:
    figure = draw_representation(numbers)
    if figure is not None:
        caption = (
            "Share of hidden units whose mean activation is at most 0.025 of their layer's, and "
            "effective rank of the centred features before the head, with the statistics of the "
            f"predict forward; mean over games; bands: pointwise {numbers.interval_words}."
        )
        yield Drawing("representation", figure, caption)


@in_house_style
def draw_representation(numbers: StudyNumbers) -> Figure | None:
    """Two panels, a row per UTD; None where nothing was measured."""
    names = {DORMANT: "Dormant units (τ = 0.025)", RANK: "Effective rank of the features"}
    if not any(measured(numbers, arm, RANK) for arm in numbers.arms):
        return None
    figure = new_figure(10.0, 0.5 + 2.9 * len(numbers.utds))
    note_missing(figure, numbers.missing_note(numbers.utds))
    grid = figure.subplots(len(numbers.utds), 2, squeeze=False)
    for row, utd in zip(grid, numbers.utds, strict=True):
        for axes, (pattern, name) in zip(row, names.items(), strict=True):
            for line, arm in numbers.arms_at(utd):
                draw_measured(axes, numbers, line, arm, measured(numbers, arm, pattern))
            axes.set_title(", ".join(filter(None, (name, numbers.utd_name(utd)))), **TITLE)
            finish(axes, numbers)
    side_legend(figure, numbers, numbers.arms_at(numbers.utds[0]))
    return figure
