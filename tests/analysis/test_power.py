"""Seeds that the next study would need, against simulated studies and textbook formulas."""

import numpy as np
import pytest

from bnmodes.analysis.power import seeds_needed
from bnmodes.analysis.significance import permutation_p_values
from bnmodes.analysis.study_numbers import StudyNumbers
from helpers.synthetic import minatar_study, synthetic_results

STUDIES = 150


def made_up(values, arms):
    """A study whose reference C51 has these AUCs, games × seeds, and so many other arms."""
    values = np.array(values)
    games, seeds = values.shape
    bases = ("none", "ln", "bn-running", "bn-batch", "bn-tracked")[: 1 + arms]
    study = minatar_study(("breakout", "space_invaders")[:games], range(seeds), bases)
    numbers = StudyNumbers(synthetic_results(study), resamples=20)
    numbers.once(("values", "C51", "auc"), lambda: values)
    return numbers


def simulated_power(spread, difference, seeds, arms):
    """Of studies whose arms differ by `difference` on every game, how many show it by AUC: by the
    permutation test of both measures, at Holm's first step. The final score goes with AUC."""
    rng, shown = np.random.default_rng(0), 0
    for number in range(STUDIES):
        auc = np.array(spread)[:, None] * rng.normal(size=(2, len(spread), seeds))
        auc[0] += difference
        final = 0.9 * auc + 0.45 * np.array(spread)[:, None] * rng.normal(size=auc.shape)
        ours, theirs = (np.stack([auc[arm], final[arm]]) for arm in (0, 1))
        p = permutation_p_values(ours, theirs, permutations=400, seed=number)
        shown += p[0] <= 0.05 / arms
    return shown / STUDIES


OUTLIER = [[1.0, 1.01, 1.02, 1.03, 3.0]]
"""Of five runs, the IQM leaves the one out that makes the spread."""


@pytest.mark.parametrize(
    ("values", "arms"),
    [(OUTLIER, 4), ([[1.0, 1.3, 1.6], [1.0, 1.1, 1.2]], 1)],
    ids=["1x5", "2x3"],
)
def test_with_these_seeds_four_of_five_simulated_studies_show_the_difference(values, arms):
    spread = np.std(values, axis=1, ddof=1)
    needed = seeds_needed(made_up(values, arms), effect=spread.mean() / 2 / np.mean(values))
    assert needed.difference == pytest.approx(spread.mean() / 2)
    assert 0.68 < simulated_power(spread, needed.difference, needed.seeds, arms) < 0.92
    assert simulated_power(spread, needed.difference, needed.seeds // 8, arms) < 0.3


def test_on_one_game_the_number_is_that_of_the_textbook_for_two_means_half_a_spread_apart():
    """2 (z(1 − α/2) + z(0.8))² / 0.5², with α = 0.05 over two measures: (2.2414 + 0.8416)² · 8."""
    half_a_spread = np.std(OUTLIER, ddof=1) / 2
    assert seeds_needed(made_up(OUTLIER, 1), effect=half_a_spread / np.mean(OUTLIER)).seeds == 77


def test_half_the_difference_takes_four_times_the_seeds():
    numbers = made_up(OUTLIER, 1)
    few, many = (seeds_needed(numbers, effect).seeds for effect in (0.2, 0.1))
    assert many == pytest.approx(4 * few, abs=4)


def test_a_large_difference_takes_as_many_seeds_as_the_test_needs_to_show_anything():
    """One game, one comparison: of n against n runs at best 2 of C(2n, n) deals are as extreme, and
    only from n = 4 on is that at most 5%."""
    assert seeds_needed(made_up([[1.0, 1.01, 1.02]], 1), effect=5.0).seeds == 4


def test_without_a_spread_between_seeds_or_a_positive_auc_nothing_is_said():
    assert seeds_needed(made_up([[-1.0, -2.0]], 1)) is None
    assert seeds_needed(made_up([[1.0]], 1)) is None
    assert seeds_needed(made_up([[1.0, 1.0]], 1)) is None
