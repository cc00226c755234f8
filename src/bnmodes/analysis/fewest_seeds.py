"""Whether a study, as it is declared, can show a difference at all, before anything is run."""

import itertools

import numpy as np

from bnmodes.analysis.contrasts import SIGNIFICANCE
from bnmodes.analysis.significance import smallest_possible_p
from bnmodes.analysis.wording import counted
from bnmodes.studies.study import Study


def too_few_seeds(study: Study) -> str:
    """A sentence that says how many seeds could show one; empty where these can, or where there is
    nothing to compare."""
    pairs, games, seeds = study.whole.comparisons, len(study.games), len(study.seeds)
    if pairs < 1 or _can_show(pairs, games, seeds):
        return ""
    enough = fewest_seeds(pairs, games)
    numbers = [counted(games, "game"), counted(seeds, "seed")]
    numbers += [counted(pairs, "comparison")] if pairs > 1 else []
    given = f"{', '.join(numbers[:-1])} and {numbers[-1]}"
    return f"With {given} no test can show a difference, however large: {enough} seeds could."


def fewest_seeds(pairs: int, games: int) -> int:
    """With which a test of so many comparisons could show a difference at all."""
    return next(n for n in itertools.count(1) if _can_show(pairs, games, n))


def _can_show(pairs: int, games: int, seeds: int) -> bool:
    """Whether the strictest of Holm's steps is passed where all runs of an arm are the better."""
    return smallest_possible_p(np.ones((games, seeds), dtype=bool)) * pairs <= SIGNIFICANCE
