"""A study's result for the terminal: a row per arm, and what the data show."""

import numpy as np
from rich.table import Table

from bnmodes.analysis.captions import intervals_as, percent_words
from bnmodes.analysis.figures.style import game_title
from bnmodes.analysis.study_numbers import MEASURE_NAMES, MEASURES, StudyNumbers
from bnmodes.analysis.wording import written

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
        means = np.array([np.nanmean(of(numbers.raw(arm)), axis=-1) for of in MEASURES.values()])
        returns = [" / ".join(f"{mean:.1f}" for mean in of_game) for of_game in means.T]
        scores = [written(numbers.relative(arm, measure)) for measure in MEASURES]
        table.add_row(arm.name, *(returns if len(games) <= _GAMES else ()), *scores)
    return table
