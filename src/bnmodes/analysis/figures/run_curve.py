"""The learning curves of single runs, finished or not."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from bnmodes.agents.registry import CHANGED, find_agent
from bnmodes.analysis.figures.style import DPI, TITLE, in_house_style, new_figure
from bnmodes.analysis.figures.time_axis import thousands
from bnmodes.analysis.palette import ArmStyle, styles_of
from bnmodes.errors import UsageError
from bnmodes.files import replacing
from bnmodes.runs.folder import RunFolder
from bnmodes.runs.spec import RunSpec

_DETAILED = 3
"""Most runs that are drawn with single games and training returns; of more, only the curves."""
Points = list[tuple[int, float]]
_THICK = {
    "test": "greedy test games (mean)",
    "evaluation": "evaluation games (mean)",
    "train": "games while training (mean)",
}
_FAINT: dict[str, Any] = {"alpha": 0.35, "linewidth": 0.8}


@in_house_style
def learning_curve(runs: list[RunFolder], path: Path) -> None:
    """A curve for each run: evaluations, or greedy test games where they come more often.

    Of few runs also a dot for each evaluation game and, faint, the games while training.
    """
    if path.suffix not in (".png", ".pdf", ".svg"):
        raise UsageError(f"{path} must end in .png, .pdf or .svg.")
    if not runs:
        raise UsageError("no run was given: name at least one folder.")
    specs = [run.spec() for run in runs]
    styles = styles_of([spec.arm.removesuffix(CHANGED) for spec in specs])
    figure = new_figure(9.0 if len(runs) > 1 else 7.5, max(4.2, 1.0 + 0.2 * len(runs)))
    axes = figure.subplots()
    labels = _labels(specs, [run.path.name for run in runs])
    drawn: set[str] = set()
    for run, style, label in zip(runs, styles, labels, strict=True):
        drawn |= _draw_run(axes, run, style, label, is_detailed=len(runs) <= _DETAILED)
    axes.set_title(_title(specs), **TITLE)
    axes.set(xlabel="decisions", ylabel="return of a game (raw)")
    axes.xaxis.set_major_formatter(thousands)
    axes.margins(x=0)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    meanings = _meanings(drawn)
    plain: dict[str, Any] = {"frameon": False, "fontsize": 8.5, "ncols": len(meanings)}
    figure.legend(handles=meanings, loc="outside lower center", **plain)
    if len(runs) > 1:
        curves = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
        # In the order of their ends.
        curves.sort(key=lambda line: -np.asarray(line.get_ydata())[-1])
        options = {"frameon": False, "fontsize": 8.5, "handlelength": 3, "alignment": "left"}
        figure.legend(handles=curves, loc="outside right upper", title="by last return", **options)
    with replacing(path) as aside:
        figure.savefig(aside, dpi=DPI)


def _title(specs: Sequence[RunSpec]) -> str:
    games = sorted({spec.env for spec in specs})
    agents = ", ".join(sorted({find_agent(spec.agent).name.upper() for spec in specs}))
    if len(specs) == 1:
        return f"{agents} {specs[0].arm}, seed {specs[0].seed}, on {games[0]}"
    return f"{agents} on {', '.join(games) if len(games) <= 2 else f'{len(games)} games'}"


def _labels(specs: Sequence[RunSpec], names: Sequence[str]) -> list[str]:
    """The arm and what else differs between the runs; a folder's name only where nothing does."""
    fields = {
        "agent": [spec.agent for spec in specs],
        "game": [spec.env.split("/")[-1] for spec in specs],
        "seed": [f"seed {spec.seed}" for spec in specs],
    }
    shown = [values for name, values in fields.items() if name == "seed" or len(set(values)) > 1]
    labels = [
        ", ".join([spec.arm, *rest])
        for spec, rest in zip(specs, zip(*shown, strict=True), strict=True)
    ]
    return [
        f"{label} ({name})" if labels.count(label) > 1 else label
        for label, name in zip(labels, names, strict=True)
    ]


def _meanings(drawn: set[str]) -> list[Line2D]:
    """Legend of what the lines and dots of every run are, whatever its colour."""
    black: dict[str, Any] = {"color": "black"}
    thick = " or ".join(words for kind, words in _THICK.items() if kind in drawn)
    found = [Line2D([], [], **black, linewidth=1.8, label=thick)]
    if "faint" in drawn:
        found += [Line2D([], [], **black, **_FAINT, label=_THICK["train"])]
    if "dots" in drawn:
        dot: dict[str, Any] = {"marker": "o", "markersize": 3, "linestyle": "", "alpha": 0.35}
        found += [Line2D([], [], **black, **dot, label="single evaluation games")]
    return found


def _draw_run(
    axes: Axes, run: RunFolder, style: ArmStyle, label: str, is_detailed: bool
) -> set[str]:
    """Draw a run; which returns its thick line has, and whether "faint" and "dots" are there."""
    rows = run.metrics()
    training, tests = _returns(rows, "train"), _returns(rows, "test")
    evaluation = _returns(rows, "evaluation")
    played = [(r["decision"], r.get("returns")) for r in rows if r["kind"] == "evaluation"]
    dots = [(at, x) for at, games in played if isinstance(games, list) for x in games]
    if not training and not evaluation and not tests:
        raise UsageError(f"{run.path} has no metrics yet: let it train for a while.")
    kind = "test" if len(tests) > len(evaluation) else "evaluation" if evaluation else "train"
    curve = {"test": tests, "evaluation": evaluation, "train": training}[kind]
    drawn = {kind}
    if is_detailed and training and kind != "train":
        axes.plot(*zip(*training, strict=True), color=style.colour, **_FAINT)
        drawn.add("faint")
    if is_detailed and dots:
        dotted: dict[str, Any] = {"alpha": 0.35, "s": 9, "linewidths": 0, "clip_on": False}
        axes.scatter(*zip(*dots, strict=True), color=style.colour, **dotted)
        drawn.add("dots")
    marker = "o" if len(curve) <= 40 and kind == "evaluation" else None
    look: dict[str, Any] = style.line | {
        "linewidth": 1.8,
        "marker": marker,
        "markersize": 4,
        "clip_on": False,
    }
    axes.plot(*zip(*curve, strict=True), **look, label=label)
    return drawn


def _returns(rows: list[dict[str, Any]], kind: str) -> Points:
    points = [(row["decision"], row.get("return")) for row in rows if row["kind"] == kind]
    return [(at, value) for at, value in points if isinstance(value, int | float)]
