"""Figures from whatever runs there are."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from bnmodes.errors import UsageError
from bnmodes.training.record import RunFolder

# One colour per normaliser everywhere, from Okabe and Ito's palette.
COLOURS = {
    "none": "#555555",
    "ln": "#009E73",
    "bn-running": "#D55E00",
    "bn-batch": "#0072B2",
    "bn-tracked": "#E69F00",
    "ln-wn": "#009E73",
    "bn-wn": "#0072B2",
}


def learning_curve(runs: list[RunFolder], path: Path) -> None:
    """Evaluation returns (each dot one game) and the mean return of games while training."""
    if path.suffix not in (".png", ".pdf", ".svg"):
        raise UsageError(f"{path} must end in .png, .pdf or .svg.")
    if not runs:
        raise UsageError("no run was given: name at least one folder.")
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for folder in runs:
        spec, rows = folder.spec(), folder.metrics()
        colour = COLOURS[spec.arm]
        training = [
            (r["decision"], r["return"]) for r in rows if r["kind"] == "train" and "return" in r
        ]
        evaluation = [r for r in rows if r["kind"] == "evaluation"]
        if training:
            axes.plot(*zip(*training, strict=True), color=colour, alpha=0.3, linewidth=1)
        if evaluation:
            decisions = [r["decision"] for r in evaluation]
            axes.plot(decisions, [r["return"] for r in evaluation], color=colour, linewidth=2)
    axes.set(xlabel="decisions", ylabel="return of a game (raw)")
    figure.savefig(path, dpi=150)
    plt.close(figure)
