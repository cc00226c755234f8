"""A study's result for the terminal: a row per arm, and what the data show."""

import numpy as np
from rich.table import Table

from bnmodes.analysis.captions import intervals_as, percent_words
from bnmodes.analysis.figures.style import game_title
from bnmodes.analysis.statistics import seed_means
from bnmodes.analysis.study_numbers import MEASURE_NAMES, MEASURES, StudyNumbers
from bnmodes.analysis.wording import written
from bnmodes.studies.study import Arm

_GAMES = 3
"""Most games that get a column of raw returns."""


def summary_table(numbers: StudyNumbers) -> Table:
    """Mean returns on few games; the IQM of each measure with its interval."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    intervals = intervals_as(numbers, "in brackets {}")
    table.caption = f"Mean returns and IQMs; {intervals}. {percent_words(numbers)}".rstrip()
    table.caption_justify = "left"
    table.add_column("arm", no_wrap=True)
    games = numbers.raw(numbers.arms[0]).games
    for game in games if len(games) <= _GAMES else ():
        title = f"{game_title(game)}\n{' / '.join(MEASURES)}"
        table.add_column(title, justify="right", no_wrap=True)
    for measure, name in MEASURE_NAMES.items():
        table.add_column(
            f"{name} IQM\n{numbers.relative_unit(measure)}", justify="right", no_wrap=True
        )
    for arm in numbers.arms:
        scores = [written(numbers.relative(arm, measure)) for measure in MEASURES]
        returns = return_cells(numbers, arm) if len(games) <= _GAMES else []
        table.add_row(arm.name, *returns, *scores)
    return table


def return_cells(numbers: StudyNumbers, arm: Arm) -> list[str]:
    """Mean AUC and final return on each declared game, over the seeds that the arm has there."""
    means = np.array([seed_means(of(numbers.raw(arm))) for of in MEASURES.values()])
    return [
        "–" if np.isnan(of_game).any() else " / ".join(f"{mean:.1f}" for mean in of_game)
        for of_game in means.T
    ]
