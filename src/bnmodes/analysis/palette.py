"""The colour, dashes and marker of every arm of a study: each its own.

The arms that many studies share have the same colour everywhere, from Okabe and Ito's palette, with
the paper's grouping: LayerNorm green, batch statistics blue, the act role alone purple, the
bootstrap role alone orange, histogram heads orange and purple. Joined rows are blue, but where an
arm with batch statistics has the blue, they are indigo. Running statistics are grey as in
the paper's PQN figures, but where an arm without normalisation has the grey, they are red. An arm
that is not among them gets a colour that is still free; a second arm with the same base gets a
shade of its base's colour, and other dashes.
"""

import colorsys
from collections.abc import Sequence
from dataclasses import dataclass

COLOURS = {
    "none": "#555555",
    "ln": "#009E73",
    "bn-running": "#D55E00",
    "bn-tracked": "#E69F00",
    "bn-bootstrap-only": "#E69F00",
    "bn-act-only": "#8E4FB0",
    "bn-batch": "#0072B2",
    "ln-hl-gauss": "#E69F00",
    "bn-batch-hl-gauss": "#8E4FB0",
    "bn-joined": "#0072B2",
    "bn-independent": "#CC79A7",
    "bn-pool": "#56B4E9",
    "bn-partner": "#661100",
    "bn-anchored": "#000000",
    "bn-separate": "#E69F00",
    "xqc-no-target": "#56B4E9",
    "batchnorm": "#CC79A7",
    "batchrenorm": "#7B3FA0",
}
HISTOGRAM = "-hl-gauss"
"""Behind the base of an arm whose head is a histogram."""
_GREY = COLOURS["none"]
PUBLISHED = "#8A8A8A"
"""Results of others: hatched bars and dotted lines."""
_INDIGO = "#332288"
_FREE = ("#8C564B", "#B5A400", "#1F9E9E", "#A8324A", "#3D5A98", "#6B8E23", "#E377C2")
_MARKERS = {
    "none": "s",
    "ln": "^",
    "bn-running": "v",
    "bn-tracked": "D",
    "bn-bootstrap-only": "<",
    "bn-act-only": ">",
    "bn-batch": "o",
    "ln-hl-gauss": "^",
    "bn-batch-hl-gauss": "^",
    "bn-joined": "o",
    "bn-independent": "X",
    "bn-pool": "P",
    "bn-partner": "p",
    "bn-anchored": "*",
    "bn-separate": "D",
    "xqc-no-target": "P",
    "batchnorm": "<",
    "batchrenorm": "X",
}
_FREE_MARKERS = ("h", "p", "d", "8", "P", "X", "*", "H")
_DASHES = ("-", (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (8, 2)))
_PROJECTED = {"ln-wn": "ln", "bn-wn": "bn-batch"}
"""Arms with projected weights: a darker shade of the same arm without projection, dashed."""


@dataclass(frozen=True)
class ArmStyle:
    colour: str
    dashes: str | tuple = "-"
    marker: str = "o"
    projected: bool = False

    @property
    def line(self) -> dict:
        """Options of a line for matplotlib."""
        return {"color": self.colour, "linestyle": self.dashes}

    @property
    def points(self) -> dict:
        """Options of markers for matplotlib; a projection's are hollow."""
        return {"marker": self.marker, "markerfacecolor": "white" if self.projected else None}


def styles_of(bases: Sequence[str]) -> list[ArmStyle]:
    """A style for each line of a picture, given by the base of its arms, in their order."""
    styles: list[ArmStyle] = []
    unknown = list(dict.fromkeys(b for b in bases if _PROJECTED.get(b, b) not in COLOURS))
    seen: dict[str, int] = {}
    has_histograms = any(base.endswith(HISTOGRAM) for base in bases)
    for base in bases:
        variant = seen.get(base, 0)
        seen[base] = variant + 1
        known, projected = _PROJECTED.get(base, base), base in _PROJECTED
        if base in unknown:
            colour, marker = _free_colour(unknown.index(base), bases), _free_marker(unknown, base)
        else:
            colour, marker = COLOURS[known], _MARKERS[known]
        grey_running = base == "bn-running" and "none" not in bases
        if grey_running:
            colour = _GREY
        if base == "bn-joined" and "bn-batch" in bases:
            colour, marker = _INDIGO, "h"
        if has_histograms and not base.endswith(HISTOGRAM):
            marker = "X" if base == "bn-running" else "o"  # a triangle is a histogram's
        if projected:
            colour = _shaded(colour, -0.3)
        dashed = (projected or grey_running) and not variant
        dashes = "--" if dashed else _DASHES[variant % len(_DASHES)]
        colour = _distinct(colour, variant, {style.colour for style in styles})
        styles.append(ArmStyle(colour, dashes, marker, projected))
    return styles


def _free_marker(unknown: Sequence[str], base: str) -> str:
    return _FREE_MARKERS[unknown.index(base) % len(_FREE_MARKERS)]


def _free_colour(place: int, bases: Sequence[str]) -> str:
    taken = {COLOURS[_PROJECTED.get(b, b)] for b in bases if _PROJECTED.get(b, b) in COLOURS}
    free = [*_FREE, *(colour for colour in COLOURS.values() if colour not in taken)]
    if place < len(free):
        return free[place]
    hue = (0.1 + 0.618 * place) % 1  # the golden ratio keeps new hues away from each other
    return _hex(colorsys.hls_to_rgb(hue, 0.42, 0.6))


def _distinct(colour: str, variant: int, taken: set[str]) -> str:
    """The colour itself for the first of its base; else a lighter or darker shade that is free."""
    steps = (0.0, 0.38, -0.38, 0.58, -0.6, 0.2, -0.2, 0.48, -0.5, 0.1, -0.1)
    for step in (*steps[variant % len(steps) :], *steps):
        shade = _shaded(colour, step)
        if shade not in taken:
            return shade
    place = len(taken)
    return _hex(colorsys.hls_to_rgb((0.05 + 0.618 * place) % 1, 0.35 + 0.3 * (place % 2), 0.55))


def _shaded(colour: str, step: float) -> str:
    """Towards white by a positive share, towards black by a negative one."""
    if step == 0:
        return colour
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    goal = 1.0 if step > 0 else 0.0
    return _hex(channel + abs(step) * (goal - channel) for channel in channels)


def _hex(channels) -> str:
    return "#" + "".join(f"{round(255 * channel):02X}" for channel in channels)
