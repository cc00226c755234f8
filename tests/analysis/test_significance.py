"""Permutation tests against brute force, their size under equal arms, and Holm's correction."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bnmodes.analysis.significance import holm, permutation_p_values, smallest_possible_p

NAN = float("nan")


def brute_p(a, b):
    """Every way to deal the runs of each game out to two arms of the same size, judged by the mean
    over games of the difference of the arms' means."""
    by_game = []
    for ours, theirs in zip(a, b, strict=True):
        there = ~(np.isnan(ours) | np.isnan(theirs))
        runs = [*ours[there], *theirs[there]]
        deals = []
        for chosen in itertools.combinations(range(len(runs)), len(runs) // 2):
            mine = [runs[i] for i in chosen]
            yours = [runs[i] for i in range(len(runs)) if i not in chosen]
            deals.append((mine, yours))
        by_game.append(deals)

    def size(deal):
        return abs(np.mean([np.mean(mine) - np.mean(yours) for mine, yours in deal]))

    sizes = [size(deal) for deal in itertools.product(*by_game)]
    seen = size([deals[0] for deals in by_game])  # the first half of the runs are a's
    return np.mean([one >= seen - 1e-9 for one in sizes])


@pytest.mark.parametrize("gap", [0.0, 1.5])
@pytest.mark.parametrize("rounded", [False, True])
def test_few_deals_are_all_looked_at(gap, rounded):
    a, b = np.random.default_rng(2).normal(size=(2, 2, 3))
    a = a + gap
    if rounded:  # ties
        a, b = a.round(), b.round()
    np.testing.assert_allclose(permutation_p_values(a[None], b[None]), brute_p(a, b))


def test_runs_that_all_beat_the_others_have_the_smallest_possible_p():
    a = np.array([[3.0, 2.0, 9.0, 4.0, 2.5]])
    p = permutation_p_values(a[None], a[None] - 8.0)
    np.testing.assert_allclose(p, smallest_possible_p(np.ones((1, 5), bool)))


def test_a_seed_that_one_arm_lacks_is_left_out_of_both():
    a = np.array([[5.0, 6.0, NAN], [7.0, 8.0, 9.0]])
    b = np.array([[1.0, 2.0, 99.0], [1.5, 2.5, 3.5]])
    np.testing.assert_allclose(permutation_p_values(a[None], b[None]), brute_p(a, b))
    assert smallest_possible_p(~np.isnan(a)) == 2 / (6 * 20)


def test_many_deals_are_sampled():
    a, b = np.random.default_rng(0).normal(size=(2, 3, 3))
    exact = permutation_p_values(a[None], b[None], permutations=8000)
    sampled = permutation_p_values(a[None], b[None], permutations=4000)
    assert exact != sampled
    np.testing.assert_allclose(exact, sampled, atol=0.03)
    apart = permutation_p_values(a[None] + 99, b[None], permutations=4000)
    assert 1 / 4001 <= apart[0] < 0.002, "what was seen is itself one of the deals"


def test_equal_arms_and_differences_of_rounding_are_no_evidence():
    a = np.random.default_rng(0).normal(size=(1, 4, 3))
    assert permutation_p_values(a, a)[0] == 1
    rounded = a * (1 + 1e-16) + 1e-16
    assert permutation_p_values(rounded, a)[0] == 1


def test_two_measures_that_are_one_cost_nothing_and_others_at_most_a_factor_of_two():
    a, b = np.random.default_rng(1).normal(size=(2, 2, 3))
    other = np.random.default_rng(2).normal(size=(2, 2, 3))
    (alone,) = permutation_p_values(a[None], b[None])
    np.testing.assert_allclose(
        permutation_p_values(np.stack([a, 2 * a]), np.stack([b, 2 * b])), alone
    )
    both = permutation_p_values(np.stack([a, other[0]]), np.stack([b, other[1]]))
    assert alone < both[0] <= 2 * alone


STUDIES = 300
MOST_CLAIMS = 33
"""Of 300 studies. If each claims with probability 5%, more than 33 do once in 100,000 times; if
each claims with probability 20%, at most 33 do once in 40,000 times."""


def claims_of_equal_arms(games, seeds, seed):
    """How many of whole studies of six equal arms with two measures claim a difference: as reports
    are judged, and without the correction for the number of pairs."""
    rng = np.random.default_rng(seed)
    judged = uncorrected = 0
    for study in range(STUDIES):
        first, noise = rng.lognormal(size=(2, 6, games, seeds))
        arms = np.stack([first, first + 0.5 * noise], axis=1)
        found = [
            permutation_p_values(arm, arms[0], permutations=400, seed=study) for arm in arms[1:]
        ]
        judged += min(p.min() for p in holm(found)) <= 0.05
        uncorrected += min(p.min() for p in found) <= 0.05
    return judged, uncorrected


@pytest.mark.parametrize(("games", "seeds"), [(2, 3), (5, 3)])
def test_studies_of_equal_arms_seldom_claim_a_difference(games, seeds):
    judged, uncorrected = claims_of_equal_arms(games, seeds, seed=0)
    assert judged <= MOST_CLAIMS
    assert uncorrected > MOST_CLAIMS, "the bound would see a procedure without Holm's correction"


@given(st.lists(st.floats(1e-4, 1), min_size=1, max_size=8))
def test_holm_is_the_textbook_procedure(p_values):
    """Step down from the smallest while p ≤ 0.05/(those left)."""
    rejected, left = set(), len(p_values)
    for place in sorted(range(len(p_values)), key=lambda i: p_values[i]):
        if p_values[place] * left > 0.05:
            break
        rejected.add(place)
        left -= 1
    corrected = holm([np.array([p]) for p in p_values])
    assert {i for i, p in enumerate(corrected) if p[0] <= 0.05} == rejected
    assert all(0 < p[0] <= 1 and p[0] >= q for p, q in zip(corrected, p_values, strict=True))


def test_a_pair_counts_until_all_of_its_measures_are_passed():
    first, second = holm([np.array([0.04, 0.01]), np.array([0.02, 0.5])])
    np.testing.assert_allclose(first, [0.08, 0.02])
    np.testing.assert_allclose(second, [0.04, 0.5])
    (alone,) = holm([np.array([0.01, 0.02])], family=4)
    np.testing.assert_allclose(alone, [0.04, 0.08])


def test_a_difference_by_one_measure_makes_no_claim_by_the_other_more_likely():
    """Ten pairs differ by the first measure; by the second, whose p is uniform, none does."""
    rng, claims = np.random.default_rng(0), 0
    for _ in range(2_000):
        found = holm([np.array([1e-5, p]) for p in rng.random(10)])
        claims += min(p[1] for p in found) <= 0.05
    assert claims / 2_000 < 0.065
