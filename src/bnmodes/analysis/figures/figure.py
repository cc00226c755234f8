"""What a figure of a study is, and the table of all figures.

A figure is one file of this folder. It holds a function that draws a study's numbers and gives
`Drawing`s, each with its name and its caption, marked with `@study_figure(place)`. Nothing else has
to be touched: every module of this folder is looked at, and a figure outside it, in a file of one's
own, is in the table as soon as that file is imported.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from matplotlib.figure import Figure

from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.errors import UsageError

DrawFigure = Callable[[StudyNumbers], Iterable["Drawing"]]


@dataclass(frozen=True)
class Drawing:
    """A picture with its caption."""

    name: str
    """The stem of its files, e.g. "per-game-utd-8"."""
    figure: Figure
    caption: str
    narrow: Figure | None = None
    """The same for the screen of a phone, where the figure itself would be too broad to read."""

    def __post_init__(self):
        if not re.fullmatch(r"\w[\w.-]*", self.name):
            raise ValueError(
                f"the figure's name {self.name!r} is no file's name: use letters, digits, - and ."
            )
        if not self.caption.strip():
            raise ValueError(f"the figure {self.name} has no caption: say what is drawn.")


@dataclass(frozen=True)
class StudyFigure:
    place: float | int
    """Where in a report it stands, from small to large."""
    draw: DrawFigure


_figures: dict[str, StudyFigure] = {}


def study_figure(place: float | int) -> Callable[[DrawFigure], DrawFigure]:
    """Puts a function into the table of figures, under its own name.

    It gives any number of drawings, none where a study has nothing to show in it.
    """

    def register(draw: DrawFigure) -> DrawFigure:
        _figures[f"{draw.__module__}.{draw.__qualname__}"] = StudyFigure(place, draw)
        return draw

    return register


def all_figures() -> list[StudyFigure]:
    """In the order in which they stand in a report."""
    package = importlib.import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{__package__}.{module.name}")
    return sorted(_figures.values(), key=lambda figure: figure.place)


def draw_all(numbers: StudyNumbers) -> Iterable[Drawing]:
    """Every drawing of a study, one after the other: each can be written and forgotten."""
    names = set()
    for figure in all_figures():
        for drawing in figure.draw(numbers):
            if drawing.name in names:
                raise UsageError(f"two figures are called {drawing.name}: rename yours.")
            names.add(drawing.name)
            yield drawing
