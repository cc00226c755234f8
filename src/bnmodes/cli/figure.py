"""The command that draws a figure of the paper by its number."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from bnmodes.cli.options import WITHOUT_DEFAULT, parse
from bnmodes.cli.scoring import Scoring
from bnmodes.cli.study import tell_changes
from bnmodes.errors import UsageError
from bnmodes.files import replacing
from bnmodes.studies.study import Study

SHOWN_BY_DEFAULT = tyro.conf.arg(help_behavior_hint="(default: those that the paper shows)")

console = Console(soft_wrap=True, highlight=False, markup=False)


@dataclass(frozen=True)
class Figure(Scoring):
    """Draw a figure of the paper from the runs of the studies that it shows."""

    number: tyro.conf.Positional[int]
    """From 1 to 12, as the paper numbers them."""
    to: Annotated[Path | None, WITHOUT_DEFAULT] = None
    """File to write, .png, .pdf or .svg; without it, figure-N.png in the folder of results."""
    arms: Annotated[tuple[str, ...], SHOWN_BY_DEFAULT] = ()
    """Only these arms of its studies."""


def figure_command(args: list[str]) -> None:
    options = parse(Figure, args, "bnmodes figure")
    from bnmodes.analysis.figures.style import render
    from bnmodes.analysis.paper_figures import PAPER_FIGURES
    from bnmodes.studies.results import gather, holds_results

    if options.number not in PAPER_FIGURES:
        raise UsageError(f"the paper has no figure {options.number}: choose from 1 to 12.")
    figure = PAPER_FIGURES[options.number]
    path = options.to or options.out / f"figure-{options.number}.png"
    if path.suffix not in (".png", ".pdf", ".svg"):
        raise UsageError(f"--to is {path}, but must end in .png, .pdf or .svg.")
    studies = chosen_arms(figure.studies, options.arms)
    if not holds_results(options.out):
        runs = " and ".join(f"`bnmodes study run {study.name}`" for study in studies)
        raise UsageError(
            f"{options.out} holds no results: figure {options.number} is drawn from {runs}; run "
            "them, or give the --out of such results."
        )
    gathered = [gather(study, options.out) for study in studies]
    for results in gathered:
        tell_changes(results)
    numbers = [options.numbers(results) for results in gathered]
    drawn = figure.draw(*numbers)
    with replacing(path) as aside:
        aside.write_bytes(render(drawn, [path.suffix[1:]])[path.suffix[1:]])
    names = " and ".join(study.name for study in studies)
    console.print(f"{path}: figure {options.number}. {figure.title}.")
    console.print(f"From {names}; {numbers[0].interval_words}.")


def chosen_arms(studies: tuple[Study, ...], arms: tuple[str, ...]) -> list[Study]:
    """Each study with those of the arms that it has; one that has none of them keeps its own."""
    from bnmodes.studies.registry import find_study

    whole = [find_study(study.name) for study in studies]
    known = [arm.name for study in whole for arm in study.arms]
    for name in arms:
        if name not in known:
            raise UsageError(
                f"no study of this figure has an arm '{name}': choose from {', '.join(known)}."
            )
    here = [[arm.name for arm in study.arms if arm.name in arms] for study in whole]
    return [
        full.restricted(arms=names) if names else shown
        for full, shown, names in zip(whole, studies, here, strict=True)
    ]
