"""What captions and the lines below tables say of spread: intervals, standard errors, one seed."""

from bnmodes.analysis.study_numbers import StudyNumbers


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
