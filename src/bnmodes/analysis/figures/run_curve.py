"""The learning curve of single runs, finished or not."""

from pathlib import Path

from matplotlib.axes import Axes

from bnmodes.analysis.figures.style import TITLE, arm_style, in_house_style, new_figure
from bnmodes.errors import UsageError
from bnmodes.runs.folder import RunFolder


@in_house_style
def learning_curve(runs: list[RunFolder], path: Path) -> None:
    """Evaluation: a dot for each game and a line for their mean; faint: games while training.

    Greedy test games, where an agent has them, are a line too: they come more often.
    """
    if path.suffix not in (".png", ".pdf", ".svg"):
        raise UsageError(f"{path} must end in .png, .pdf or .svg.")
    if not runs:
        raise UsageError("no run was given: name at least one folder.")
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent} is no folder: make it first.")
    figure = new_figure(7.5, 4.2)
    axes = figure.subplots()
    for run in runs:
        _draw_run(axes, run, name=run.path.name if len(runs) > 1 else "")
    games = sorted({run.spec().env for run in runs})
    agents = sorted({run.spec().agent.upper() for run in runs})
    axes.set_title(f"{', '.join(agents)} on {', '.join(games)}", **TITLE)
    axes.set(xlabel="decisions", ylabel="return of a game (raw)")
    axes.xaxis.set_major_formatter(lambda x, _: f"{x / 1000:,g}k" if x else "0")
    axes.margins(x=0)
    axes.set_ylim(bottom=min(0, axes.get_ylim()[0]))
    figure.savefig(path, dpi=150)


def _draw_run(axes: Axes, run: RunFolder, name: str) -> None:
    spec, rows = run.spec(), run.metrics()
    style = arm_style(spec.arm.removesuffix("-changed"))
    training = [
        (r["decision"], r["return"]) for r in rows if r["kind"] == "train" and "return" in r
    ]
    evaluation = [(r["decision"], r["return"]) for r in rows if r["kind"] == "evaluation"]
    tests = [(r["decision"], r["return"]) for r in rows if r["kind"] == "test" and "return" in r]
    dots = [(r["decision"], x) for r in rows if r["kind"] == "evaluation" for x in r["returns"]]
    if not training and not evaluation:
        raise UsageError(f"{run.path} has no metrics yet: let it train for a while.")
    if training:
        axes.plot(*zip(*training, strict=True), color=style.colour, alpha=0.35, linewidth=0.8)
    if tests:
        axes.plot(*zip(*tests, strict=True), **style.line, linewidth=1.5)
    if evaluation:
        axes.scatter(
            *zip(*dots, strict=True),
            color=style.colour,
            alpha=0.35,
            s=9,
            linewidths=0,
            clip_on=False,
        )
        axes.plot(
            *zip(*evaluation, strict=True),
            **style.line,
            linewidth=2,
            marker="o",
            markersize=4,
            clip_on=False,
        )
    named, source = (evaluation, "evaluation") if evaluation else (training, "training")
    axes.annotate(
        "\n".join(filter(None, (name, spec.arm, f"seed {spec.seed}", f"({source})"))),
        named[-1],
        xytext=(8, 0),
        textcoords="offset points",
        color=style.colour,
        fontsize=9,
        verticalalignment="center",
        annotation_clip=False,
    )
