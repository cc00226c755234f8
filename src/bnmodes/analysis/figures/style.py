"""How every figure looks: colours, direct labels, the note of missing runs, the written files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# One colour per normaliser everywhere, from Okabe and Ito's palette; a projection is dashed.
COLOURS = {
    "none": "#555555",
    "ln": "#009E73",
    "bn-running": "#D55E00",
    "bn-tracked": "#E69F00",
    "bn-bootstrap-only": "#CC79A7",
    "bn-act-only": "#56B4E9",
    "bn-batch": "#0072B2",
}
_MARKERS = {
    "none": "s",
    "ln": "^",
    "bn-running": "v",
    "bn-tracked": "D",
    "bn-bootstrap-only": "<",
    "bn-act-only": ">",
    "bn-batch": "o",
}
# Arms that share a colour in one picture, such as three tracking weights, differ in their dashes.
_DASHES = ("-", (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (8, 2)))
_PROJECTED = {"ln-wn": "ln", "bn-wn": "bn-batch"}
# XQC's critics: which rows they see together, and whether there is a target network.
COLOURS |= {
    "bn-joined": "#0072B2",
    "bn-separate": "#E69F00",
    "crossq": "#56B4E9",
    "crossq-renorm": "#CC79A7",
}
_MARKERS |= {"bn-joined": "o", "bn-separate": "D", "crossq": "P", "crossq-renorm": "X"}

FORMATS = ("png", "pdf", "svg")
TITLE = {"loc": "left", "fontsize": 10, "fontweight": "bold"}
_LOOK = {
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


@dataclass(frozen=True)
class ArmStyle:
    colour: str
    dashes: str | tuple
    marker: str
    projected: bool

    @property
    def line(self) -> dict:
        return {"color": self.colour, "linestyle": self.dashes}

    @property
    def points(self) -> dict:
        """A projection's markers are hollow."""
        return {"marker": self.marker, "markerfacecolor": "white" if self.projected else None}


def arm_style(base: str, variant: int = 0) -> ArmStyle:
    """The style of an agent's arm; `variant` tells apart arms that start from the same one."""
    normaliser = _PROJECTED.get(base, base)
    projected = base in _PROJECTED
    dashes = "--" if projected and not variant else _DASHES[variant % len(_DASHES)]
    return ArmStyle(COLOURS[normaliser], dashes, _MARKERS[normaliser], projected)


def game_title(game: str) -> str:
    return game.split("/")[-1].replace("_", " ")


def new_figure(width: float, height: float) -> Figure:
    """Not known to pyplot, so nothing has to be closed."""
    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


@dataclass(frozen=True)
class EndLabel:
    x: float
    y: float
    text: str
    colour: str


def label_ends(axes: Axes, labels: Sequence[EndLabel], fontsize: float = 8.0) -> None:
    """Names at the line ends instead of a legend, moved apart where they would overlap.

    Call it last: the heights are those of the figure's layout at this moment.
    """
    labels = sorted((one for one in labels if np.isfinite(one.y)), key=lambda one: one.y)
    if not labels:
        return
    axes.figure.draw_without_rendering()
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
    figure.get_layout_engine().set(rect=(0, room, 1, 1 - room))
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


def save(figure: Figure, stem: Path) -> list[Path]:
    """`stem`.png, .pdf and .svg. The same figure gives the same bytes: no dates are written."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.parent / f"{stem.name}.{ending}" for ending in FORMATS]
    undated = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
    with matplotlib.rc_context({"svg.hashsalt": "bnmodes", "pdf.fonttype": 42}):
        for path, ending in zip(paths, FORMATS, strict=True):
            figure.savefig(path, dpi=150, metadata=undated[ending])
    return paths
