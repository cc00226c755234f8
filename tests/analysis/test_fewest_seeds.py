"""What is said before a study is run agrees with the verdicts of its report."""

import re

import numpy as np
import pytest

from bnmodes.analysis.contrasts import UNJUDGED, Pair, judge
from bnmodes.analysis.fewest_seeds import too_few_seeds
from bnmodes.studies.study import Arm, Contrast, Study


def study(games, seeds, arms, contrasts=()):
    return Study(
        name="planned",
        question="?",
        arms=tuple(Arm(f"arm {i}", "none") for i in range(arms)),
        games=("minatar/breakout", "minatar/freeway")[:games],
        seeds=tuple(range(seeds)),
        total_decisions=1_000,
        contrasts=contrasts,
    )


def is_judged(planned):
    """Whether the report has a verdict of arms whose runs are all the better than the first's."""
    first, *others = planned.arms
    scores = np.random.default_rng(0).random((len(planned.games), len(planned.seeds)))
    pairs = [Pair(arm, first, {"auc": scores + 10}, {"auc": scores}) for arm in others]
    verdicts = {found.verdict for found in judge(pairs, planned.games, resamples=10)}
    assert len(verdicts) == 1
    return verdicts != {UNJUDGED}


@pytest.mark.parametrize("games", [1, 2])
@pytest.mark.parametrize("arms", [2, 3, 4])
def test_few_seeds_are_told_exactly_where_the_report_could_not_judge(games, arms):
    fewest = next(n for n in range(1, 9) if is_judged(study(games, n, arms)))
    for seeds in range(1, fewest):
        said = too_few_seeds(study(games, seeds, arms))
        assert re.search(r"(\d+) seeds could", said)[1] == str(fewest)
    assert too_few_seeds(study(games, fewest, arms)) == ""


def test_declared_comparisons_are_those_that_count():
    one = (Contrast("arm 1", "arm 2"),)
    assert too_few_seeds(study(1, 4, arms=3, contrasts=one)) == ""
    assert too_few_seeds(study(1, 4, arms=3)) == (
        "With 1 game, 4 seeds and 2 comparisons no test can show a difference, however large: "
        "5 seeds could."
    )
    assert too_few_seeds(study(1, 1, arms=1)) == "", "nothing to compare"
