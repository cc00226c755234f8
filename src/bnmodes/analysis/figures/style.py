"""How every figure looks: direct labels, the note of missing runs, the written files."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from PIL import Image

from bnmodes.analysis.palette import ArmStyle
from bnmodes.analysis.statistics import Band, Interval
from bnmodes.analysis.study_numbers import StudyNumbers

Format = Literal["png", "pdf", "svg"]
DPI = 150
TITLE: dict[str, Any] = {"loc": "left", "fontsize": 10, "fontweight": "bold"}
_LOOK: Any = {
    "font.size": 9,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.linewidth": 0.8,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "text.color": "#222222",
    "axes.labelcolor": "#222222",
    "axes.titlecolor": "#222222",
}

# A decorator for functions that draw: the look does not leak into other people's figures.
in_house_style = matplotlib.rc_context(_LOOK)


def game_title(game: str) -> str:
    return game.split("/")[-1].replace("_", " ")


def new_figure(
    width: float, height: float, layout: Literal["constrained"] | None = "constrained"
) -> Figure:
    """Of a size in inches. Not known to pyplot, so nothing has to be closed."""
    return Figure(figsize=(width, height), layout=layout, facecolor="white")


def draw_band(
    axes: Axes, x: Sequence[float | int] | np.ndarray, band: Band, style: ArmStyle, **look
) -> None:
    """A line in its band; a single time is a dot with its error bar."""
    if len(x) == 1:
        whole = Interval(*(float(bound[0]) for bound in (band.point, band.low, band.high)))
        axes.errorbar(x, band.point, error_bars([whole]), color=style.colour, fmt="none", capsize=3)
    axes.fill_between(x, band.low, band.high, color=style.colour, alpha=0.15, linewidth=0)
    single = {"marker": "o"} if len(x) == 1 else {}
    axes.plot(x, band.point, **(style.line | {"linewidth": 1.7} | single | look))


def letter(panels: Sequence[Axes]) -> None:
    """(a), (b), … before the titles."""
    for name, axes in zip("abcdefghij", panels, strict=False):
        axes.set_title(f"({name}) {axes.get_title('left')}", **TITLE)


def error_bars(intervals: Sequence[Interval]) -> list[list[float]]:
    """How far bars reach below and above their points; a bound on the wrong side is not drawn."""
    below = [max(0.0, interval.point - interval.low) for interval in intervals]
    return [below, [max(0.0, interval.high - interval.point) for interval in intervals]]


def mark_reference(draw_line, numbers: StudyNumbers, measure: str) -> None:
    """A dotted line at 100%, where scores are percentages."""
    if numbers.reference_point(measure) is not None:
        draw_line(100, color="#222222", linewidth=0.9, linestyle=":", zorder=0.5)


def label_lowest(panels: Sequence[Axes], columns: int, text: str, **options) -> None:
    """The lowest panel of each column, also above a place that stays empty."""
    for axes in panels[-columns:]:
        axes.set_xlabel(text, **options)


def plain_log_ticks(axes: Axes) -> None:
    """Ticks of a logarithmic vertical axis as plain numbers, at 1, 2 and 5 of each decade."""
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


@dataclass(frozen=True)
class EndLabel:
    x: float
    y: float
    text: str
    colour: str


def label_line_ends(panels: Sequence[Axes], fontsize: float = 8.0) -> None:
    """Names at the ends of the labelled lines, instead of a legend.

    Call it last: the figure is laid out, once for all panels, to know the lines' heights.
    """
    figure = panels[0].get_figure(root=True)
    assert figure is not None  # the panels are drawn in one
    figure.draw_without_rendering()
    for axes in panels:
        ends = [
            EndLabel(float(x[-1]), float(y[-1]), str(one.get_label()), str(one.get_color()))
            for one, (x, y) in ((line, np.asarray(line.get_xydata()).T) for line in axes.lines)
            if not str(one.get_label()).startswith("_")
        ]
        _label_ends(axes, ends, fontsize)


def _label_ends(axes: Axes, labels: Sequence[EndLabel], fontsize: float) -> None:
    """Moved apart where they would overlap."""
    labels = sorted((one for one in labels if np.isfinite(one.y)), key=lambda one: one.y)
    if not labels:
        return
    to_pixels, pixels_per_point = axes.transData, axes.figure.dpi / 72
    ends = np.array([to_pixels.transform((one.x, one.y)) for one in labels])  # [labels, 2]
    heights = spread(ends[:, 1], 1.2 * fontsize * pixels_per_point)
    for one, end, height in zip(labels, ends, heights, strict=True):
        moved = (height - end[1]) / pixels_per_point
        leader = {"arrowstyle": "-", "color": one.colour, "linewidth": 0.6, "shrinkA": 0}
        axes.annotate(
            one.text,
            (one.x, one.y),
            xytext=(9, moved),
            textcoords="offset points",
            color=one.colour,
            fontsize=fontsize,
            verticalalignment="center",
            annotation_clip=False,
            arrowprops=leader | {"shrinkB": 2} if abs(moved) > fontsize / 2 else None,
        )


@dataclass
class _Block:
    """Labels that touch: their number, and the sum of where they want to be."""

    total: float
    number: int = 1

    def places(self, gap: float) -> np.ndarray:
        return self.total / self.number + gap * (np.arange(self.number) - (self.number - 1) / 2)


def spread(wanted: np.ndarray, gap: float) -> np.ndarray:
    """Ascending positions at least `gap` apart; neighbours that collide move evenly."""
    blocks: list[_Block] = []
    for position in wanted:
        blocks.append(_Block(float(position)))
        while len(blocks) > 1 and blocks[-1].places(gap)[0] < blocks[-2].places(gap)[-1] + gap:
            last = blocks.pop()
            blocks[-1].total += last.total
            blocks[-1].number += last.number
    return np.concatenate([block.places(gap) for block in blocks])


def note_missing(figure: Figure, note: str) -> None:
    """In the bottom right corner, on ground that is kept free for it; an empty note is none."""
    if not note:
        return
    room = 0.2 / figure.get_figheight()
    if isinstance(engine := figure.get_layout_engine(), ConstrainedLayoutEngine):
        engine.set(rect=(0, room, 1, 1 - room))
    figure.text(
        0.995,
        0.04 / figure.get_figheight(),
        note,
        horizontalalignment="right",
        verticalalignment="bottom",
        fontsize=8.5,
        fontweight="bold",
        color="#B00020",
        in_layout=False,
        gid="missing-runs",
    )


def render(figure: Figure, formats: Sequence[Format]) -> dict[Format, bytes]:
    """The figure in each format, laid out once. The same figure gives the same bytes: no dates.

    A PNG has a palette of 256 colours, a third of the size: figures have few.
    """
    undated = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
    rendered: dict[Format, bytes] = {}
    with matplotlib.rc_context({"svg.hashsalt": "bnmodes", "pdf.fonttype": 42}):
        for ending in formats:
            written = io.BytesIO()
            figure.savefig(written, format=ending, dpi=DPI, metadata=undated[ending])
            figure.set_layout_engine("none")  # it has its layout from now on
            if ending == "png":
                small = io.BytesIO()
                Image.open(written).convert("RGB").quantize(256).save(small, "png")
                written = small
            rendered[ending] = written.getvalue()
    return rendered
