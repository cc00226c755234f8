"""How many seeds the next study would need, from the spread that this one saw."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from bnmodes.analysis.contrasts import SIGNIFICANCE
from bnmodes.analysis.fewest_seeds import fewest_seeds
from bnmodes.analysis.study_numbers import MEASURES, StudyNumbers

_POWER = 0.8
EFFECT = 0.2
"""Of the reference's AUC: a difference that a reader would care about."""


@dataclass(frozen=True)
class SeedsNeeded:
    difference: float
    """In AUC, mean over games."""
    seeds: int
    """With which 80 of 100 studies would show that difference on the same games."""


def seeds_needed(numbers: StudyNumbers, effect: float = EFFECT) -> SeedsNeeded | None:
    """For a difference of `effect` times the reference's AUC. None where that AUC is not above 0,
    or has no spread to see: no run, or one seed.

    The test judges the difference of two means over games and seeds. Its variance falls with the
    number of seeds; it is taken to be twice that of the reference's mean, and the level 5% over the
    number of contrasts (Holm's first step) and of measures, which is a little too strict where they
    go together.
    """
    if numbers.reference is None:
        return None
    values = numbers.values(numbers.reference, "auc")
    if (~np.isnan(values)).sum(-1).min() < 2:
        return None
    spread = np.nanstd(values, axis=-1, ddof=1)  # of each game
    difference = effect * float(np.nanmean(values, axis=-1).mean())
    if not (difference > 0 and spread.any()):
        return None
    pairs = max(1, numbers.comparisons)
    tests = pairs * len(MEASURES)
    normal = NormalDist()
    distance = normal.inv_cdf(1 - SIGNIFICANCE / tests / 2) + normal.inv_cdf(_POWER)
    variance = 2 * float((spread**2).mean()) / len(spread)  # with one seed a game
    seeds = math.ceil(variance * (distance / difference) ** 2)
    return SeedsNeeded(difference, max(seeds, fewest_seeds(pairs, len(spread))))


def power_sentence(numbers: StudyNumbers, effect: float = EFFECT) -> str:
    """One line for planning; empty where nothing can be said."""
    found = seeds_needed(numbers, effect)
    if found is None:
        return ""
    return (
        f"For planning: on these games about {found.seeds:,} seeds an arm would show an AUC that "
        f"differs by {effect:.0%} of that of {numbers.reference_name} in 80 of 100 studies."
    )
