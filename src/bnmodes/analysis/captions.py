"""What captions and the lines below tables say of spread: intervals, standard errors, one seed."""

import numpy as np

from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.analysis.wording import counted, games_and_seeds
from bnmodes.studies.study import Arm


def compared_words(numbers: StudyNumbers) -> str:
    """The games and seeds on which the arms are compared: the same for each of them."""
    scores = numbers.scores(numbers.arms[0])
    seeds = (~np.isnan(scores.values[..., 0])).sum(-1).tolist()
    return games_and_seeds(dict(zip(scores.games, seeds, strict=True)))


def diverged_words(numbers: StudyNumbers, arms: list[Arm]) -> str:
    """How many runs of these arms measured quantities leave out; empty: none."""
    names = [arm.name for arm in arms]
    number = sum(name in names for name, _, _ in numbers.diverged)
    return f" Without {counted(number, 'run')} that diverged." if number else ""


def intervals_as(numbers: StudyNumbers, caption: str) -> str:
    """`caption` with what intervals are at its {}; with one seed only that there are none."""
    words = numbers.interval_words
    if numbers.has_intervals:
        return caption.format(words)
    return words[0].upper() + words[1:] if caption[0].isupper() else words


def seed_mean_words(numbers: StudyNumbers) -> str:
    """What is drawn of raw returns; those of one seed are drawn as they are."""
    several = max(numbers.raw(arm).most_seeds for arm in numbers.arms) > 1
    return "mean ± standard error over seeds" if several else "one seed"


def percent_words(numbers: StudyNumbers) -> str:
    """What intervals of percentages are not; empty where there are none, or nothing to compare."""
    whole = numbers.reference_point("auc")
    if whole is None or not numbers.has_intervals or len(numbers.arms) == 1:
        return ""
    return (
        f"Intervals of percentages hold the IQM of {numbers.reference_name} fixed and are not a "
        f"test; only the contrasts judge, in another unit ({numbers.unit})."
    )
