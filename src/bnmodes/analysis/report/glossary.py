"""The words of a report, for a reader who meets them here for the first time."""

from bnmodes.analysis.report.page import definitions, section

_WORDS = {
    "AUC": "Area under the learning curve: the mean of a run's scores over training. A run that "
    "learns early has a higher one than a run that only ends as high.",
    "Final": "The score at the end of training.",
    "IQM": "Interquartile mean: the mean of the middle half of all runs of all games. Less moved "
    "by single runs than the mean, less wasteful than the median.",
    "HNS": "Human-normalised score: 0 is a random player, 1 the human of a published table. Where "
    "no human played, scores are relative to the reference arm instead.",
    "Arm": "One configuration of an agent that the study compares with others.",
    "Reference": "The arm that percentages, and contrasts that are not declared, refer to.",
    "UTD": "Updates per decision of the agent.",
    "Running statistics": "BatchNorm normalises with stored averages of earlier batches "
    "(evaluation mode in most libraries).",
    "Batch statistics": "BatchNorm normalises with the mean and variance of the very batch in the "
    "forward (training mode in most libraries).",
    "Tracked": "Running statistics that a discarded forward over the same batch moves first.",
    "Momentum": "Flax's: the share of the old running statistics that a write keeps, 1 − α, where "
    "α is PyTorch's.",
    "Role": "What a forward is for: predict (it gets the gradient), bootstrap (it makes the "
    "target), act, evaluate.",
    "95% interval": "Where the aggregate of many more seeds would lie in 95 of 100 such studies, "
    "the games being the same.",
    "p": "The share of random exchanges of runs between two arms that differ as much as what was "
    "seen, corrected for the number of comparisons.",
    "Probability of improvement": "How often a run of one arm beats a run of the other on the "
    "same game; one half is even.",
}


def glossary_section() -> str:
    return section("words", "Words", definitions(_WORDS))
