"""How many seeds the next study would need, from the spread that this one saw."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from bnmodes.analysis.contrasts import SIGNIFICANCE
from bnmodes.analysis.resampling import standard_error
from bnmodes.analysis.study_numbers import MEASURES, StudyNumbers

_POWER = 0.8


@dataclass(frozen=True)
class SeedsNeeded:
    difference: float
    """Half of the reference's spread between seeds, mean over games."""
    seeds: int
    """With which 80 of 100 studies would show that difference on the same games."""


def seeds_needed(numbers: StudyNumbers, measure: str = "auc") -> SeedsNeeded | None:
    """None where the reference has no spread to see: no run, or one seed.

    The variance of a difference of two IQMs falls with the number of seeds; it is taken to be twice
    that of the reference's, and the level 5% over the number of contrasts (Holm's first step).
    """
    if numbers.reference is None or measure not in MEASURES:
        return None
    values = numbers.values(numbers.reference, measure)
    seeds = (~np.isnan(values)).sum(-1)
    if seeds.min() < 2:
        return None
    difference = float(np.nanstd(values, axis=-1, ddof=1).mean()) / 2
    if not difference > 0:
        return None
    pairs = max(1, len(numbers.contrasts) // len(MEASURES))
    normal = NormalDist()
    distance = normal.inv_cdf(1 - SIGNIFICANCE / pairs / 2) + normal.inv_cdf(_POWER)
    variance = 2 * standard_error(values) ** 2 * float(seeds.mean())  # with one seed a game
    return SeedsNeeded(difference, max(2, math.ceil(variance * (distance / difference) ** 2)))


def power_sentence(numbers: StudyNumbers) -> str:
    """One line for planning; empty where nothing can be said."""
    found = seeds_needed(numbers)
    if found is None:
        return ""
    return (
        f"For planning: on these games about {found.seeds:,} seeds an arm would show an AUC that "
        f"differs from that of {numbers.reference_name} by half of its spread between seeds "
        f"({found.difference:.2g}) in 80 of 100 studies."
    )
