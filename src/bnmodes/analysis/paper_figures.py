"""The paper's twelve figures, by their numbers, each from the studies that it shows.

Colours, dashes and markers are those of `palette`, which follows the paper's captions. What differs
from the paper is said in docs/paper.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from bnmodes.analysis.figures.aggregates import draw_aggregates
from bnmodes.analysis.figures.bars import bars_panel
from bnmodes.analysis.figures.curves import curves_panel, draw_curves
from bnmodes.analysis.figures.momentum import MOMENTUM_AXIS, momentum_legend, momentum_panel
from bnmodes.analysis.figures.per_game import draw_per_game
from bnmodes.analysis.figures.representation import PANELS, representation_panel, side_legend
from bnmodes.analysis.figures.scaling import scaling_panel
from bnmodes.analysis.figures.style import (
    TITLE,
    in_house_style,
    label_line_ends,
    letter,
    new_figure,
    note_missing,
)
from bnmodes.analysis.figures.time_axis import time_unit
from bnmodes.analysis.mechanism import RANK, measured
from bnmodes.analysis.study_numbers import MEASURES, StudyNumbers
from bnmodes.errors import UsageError
from bnmodes.studies import paper
from bnmodes.studies.study import Arm, Study


@dataclass(frozen=True)
class PaperFigure:
    title: str
    studies: tuple[Study, ...]
    """With the arms that the paper shows."""
    draw: Callable[..., Figure]
    """Of the numbers of each study."""


@in_house_style
def _c51(modes: StudyNumbers, replay: StudyNumbers) -> Figure:
    figure = new_figure(9.5, 7.2)
    _note_missing(figure, modes, replay)
    (*above,), (*below,) = figure.subplots(2, 2)
    for axes, measure in zip(above, MEASURES, strict=True):
        bars_panel(axes, modes, measure)
    for axes, measure in zip(below, MEASURES, strict=True):
        scaling_panel(axes, replay, measure)
    letter([*above, *below])
    label_line_ends(below)
    return figure


@in_house_style
def _pqn(pong: StudyNumbers, atari: StudyNumbers) -> Figure:
    figure = new_figure(14.0, 4.8)
    _note_missing(figure, pong, atari)
    panels = list(figure.subplots(1, 3, width_ratios=(1, 1, 1.35)))
    for axes, measure in zip(panels, MEASURES, strict=False):
        momentum_panel(axes, pong, measure, game=0)
        axes.set_xlabel(MOMENTUM_AXIS, fontsize=8.5)
    legend = momentum_legend(pong)
    legend |= {"title": "(a, b) " + legend["title"].replace("\n", "; "), "ncols": 5}
    figure.legend(**legend, loc="outside lower left")
    curves_panel(panels[2], atari, atari.utds[0])
    panels[2].set_title(f"{len(atari.compared.study.games)} games", **TITLE)
    panels[2].set(xlabel=time_unit(atari), ylabel=f"IQM of {atari.unit}")
    letter(panels)
    label_line_ends([panels[2]])
    return figure


@in_house_style
def _representation(c51: StudyNumbers, pqn: StudyNumbers) -> Figure:
    for numbers in (c51, pqn):
        if not any(measured(numbers, arm, RANK) for arm in numbers.arms):
            raise UsageError(
                f"the runs of study {numbers.results.study.name} have no diagnostics: run them "
                "with --diagnostics.points above 0."
            )
    figure = new_figure(12.5, 6.2)
    _note_missing(figure, c51, pqn)
    rows: Any = figure.subfigures(2, 1)
    panels = []
    for part, name, numbers in zip(rows, ("C51", "PQN"), (c51, pqn), strict=True):
        for axes, metric in zip(part.subplots(1, len(PANELS)), PANELS, strict=True):
            representation_panel(axes, numbers, numbers.utds[0], metric)
            axes.set_title(f"{name}: {PANELS[metric]}", **TITLE)
            panels.append(axes)
        side_legend(part, numbers)
    letter(panels)
    return figure


def _note_missing(figure: Figure, *studies: StudyNumbers) -> None:
    notes = {one.results.study.name: one.missing_note(one.utds) for one in studies}
    note_missing(figure, "; ".join(f"{name}: {note}" for name, note in notes.items() if note))


def _per_game(numbers: StudyNumbers) -> Figure:
    return draw_per_game(numbers, *numbers.utds)


def _arms(study: Study, is_shown: Callable[[Arm], bool]) -> Study:
    return study.restricted(arms=[arm.name for arm in study.arms if is_shown(arm)])


def _c51_at(*utds: float) -> tuple[Study]:
    return (_arms(paper.B, lambda arm: arm.swept_utd in utds),)


_PONG = _arms(paper.C, lambda arm: "bootstrap_source" not in arm.changes)

PAPER_FIGURES = {
    1: PaperFigure(
        "Bootstrap forward modes and replay scaling in C51: AUC and final IQM of the modes (a, b), "
        "and against updates per decision (c, d)",
        (paper.A, paper.B),
        _c51,
    ),
    2: PaperFigure(
        "Forward modes in PQN: AUC and final return on Pong against momentum (a, b), and IQM on "
        "26 games (c)",
        (_PONG, paper.D),
        _pqn,
    ),
    3: PaperFigure(
        "Dormant units and rank of the features, of C51 at UTD 4 and of PQN",
        (paper.E_C51, paper.E_PQN),
        _representation,
    ),
    4: PaperFigure("C51's learning curves at each UTD", (paper.B,), draw_curves),
    5: PaperFigure("C51 on each game at UTD 0.25", _c51_at(0.25), _per_game),
    6: PaperFigure("C51 on each game at UTD 1 and 2", _c51_at(1.0, 2.0), _per_game),
    7: PaperFigure("C51 on each game at UTD 4 and 8", _c51_at(4.0, 8.0), _per_game),
    8: PaperFigure("C51 on each game at UTD 12", _c51_at(12.0), _per_game),
    9: PaperFigure("PQN's greedy test games, on each game", (paper.D,), _per_game),
    10: PaperFigure("Actor-critics' learning curves", (paper.F,), draw_curves),
    11: PaperFigure("Actor-critics' final score, four aggregates", (paper.F,), draw_aggregates),
    12: PaperFigure("Actor-critics on each game", (paper.F,), _per_game),
}
