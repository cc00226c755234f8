import itertools
import math
import statistics as plain
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from bnmodes.analysis import resampling
from bnmodes.analysis.statistics import (
    AGGREGATES,
    Interval,
    compare,
    iqm,
    mean,
    median,
    optimality_gap,
    percent_of_reference,
)
from bnmodes.errors import UsageError

NAN = float("nan")

# What is tested here is the resampling itself; tests of the stretched interval are in
# test_intervals.py.
bootstrap = partial(resampling.bootstrap, interval="percentile")
curve = partial(resampling.curve, interval="percentile")
paired_difference = partial(resampling.paired_difference, interval="percentile")
probability_of_improvement = partial(resampling.probability_of_improvement, interval="percentile")


FEW = st.integers(1, 6)


@st.composite
def runs(draw, games=FEW, seeds=FEW):
    """Games × seeds with ties and missing runs, but at least one run of each game."""
    shape = (draw(games), draw(seeds))
    number = st.one_of(st.floats(-50, 50), st.sampled_from([0.0, 1.0, 2.0]))
    values = draw(arrays(np.float64, shape, elements=number))
    missing = draw(arrays(np.bool_, shape, elements=st.booleans()))
    missing[:, draw(st.integers(0, shape[1] - 1))] = False
    return np.where(missing, np.nan, values) if draw(st.booleans()) else values


def there(row):
    return [float(x) for x in row if not math.isnan(x)]


def brute_iqm(values):
    pooled = sorted(x for row in values for x in there(row))
    for _ in range(math.floor(0.25 * len(pooled))):
        pooled.remove(min(pooled))
        pooled.remove(max(pooled))
    return sum(pooled) / len(pooled)


def brute_mean(values):
    return plain.fmean(plain.fmean(there(row)) for row in values)


def brute_median(values):
    return plain.median(plain.fmean(there(row)) for row in values)


def brute_gap(values):
    return 1 - plain.fmean(plain.fmean(min(x, 1.0) for x in there(row)) for row in values)


def brute_superiority(a, b):
    shares = []
    for row_a, row_b in zip(a, b, strict=True):
        pairs = [(x, y) for x in there(row_a) for y in there(row_b)]
        shares.append(sum(1.0 if x > y else 0.5 if x == y else 0.0 for x, y in pairs) / len(pairs))
    return plain.fmean(shares)


BRUTE = {"IQM": brute_iqm, "median": brute_median, "mean": brute_mean, "optimality gap": brute_gap}


@pytest.mark.parametrize("name", BRUTE)
@given(values=runs())
def test_each_aggregate_is_the_brute_force_one(name, values):
    assert AGGREGATES.keys() == BRUTE.keys()
    np.testing.assert_allclose(AGGREGATES[name](values), BRUTE[name](values), atol=1e-12)


@pytest.mark.parametrize("name", BRUTE)
def test_leading_axes_are_a_batch(name):
    """Each entry has its own missing runs."""
    rng = np.random.default_rng(0)
    batch = rng.normal(size=(5, 6, 3, 4))
    batch[rng.random(batch.shape) < 0.3] = NAN
    batch[..., 2] = 1.5
    expected = [[BRUTE[name](values) for values in row] for row in batch]
    np.testing.assert_allclose(AGGREGATES[name](batch), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("number", "kept"),
    [(1, (0, 1)), (3, (0, 3)), (4, (1, 3)), (7, (1, 6)), (8, (2, 6)), (10, (2, 8)), (78, (19, 59))],
)
def test_iqm_drops_a_quarter_rounded_down_at_each_end(number, kept):
    """Powers tell apart which values are in the mean; 78 is 26 games with 3 seeds."""
    values = 1.1 ** np.arange(number)
    shuffled = np.random.default_rng(0).permutation(values)
    np.testing.assert_allclose(iqm(shuffled[:, None]), values[slice(*kept)].mean())
    np.testing.assert_allclose(iqm(shuffled[None, :]), values[slice(*kept)].mean())


def test_iqm_drops_a_quarter_of_the_runs_that_are_there():
    """Five of nine: one is dropped at each end, not two."""
    values = np.array([[1.0, NAN, 2.0], [NAN, 3.0, NAN], [NAN, 100.0, 4.0]])
    assert iqm(values) == 3.0


def test_aggregates_of_a_hand_made_study():
    values = np.array([[0.0, 1.0], [2.0, 4.0], [0.5, 0.5], [-1.0, 11.0]])
    assert iqm(values) == (0.5 + 0.5 + 1 + 2) / 4
    assert mean(values) == (0.5 + 3 + 0.5 + 5) / 4
    assert median(values) == (0.5 + 3) / 2
    assert optimality_gap(values) == 1 - (0 + 1 + 1 + 1 + 0.5 + 0.5 - 1 + 1) / 8


def test_each_game_counts_the_same_in_the_mean_however_many_runs_it_has():
    assert mean(np.array([[1.0, 1.0, 1.0], [5.0, NAN, NAN]])) == 3.0


@pytest.mark.parametrize("statistic", AGGREGATES.values(), ids=AGGREGATES)
def test_a_game_without_any_run_is_an_error(statistic):
    values = np.array([[1.0, 2.0], [NAN, NAN], [3.0, NAN]])
    for call in (
        lambda: statistic(values),
        lambda: bootstrap(values, statistic),
        lambda: curve(values[..., None], statistic),
        lambda: paired_difference(values, np.ones((3, 2)), statistic),
        lambda: probability_of_improvement(values, np.ones((3, 2))),
    ):
        with pytest.raises(UsageError, match="game number 1 "):
            call()


def every_resample(games, seeds):
    """All equally likely draws, as one tuple of seeds for each game."""
    one_game = list(itertools.product(range(seeds), repeat=seeds))
    return itertools.product(one_game, repeat=games)


def exact_interval(replicates, level):
    """The distribution's quantiles: the first value that so many outcomes do not exceed."""
    ordered = sorted(replicates)
    return tuple(
        ordered[math.ceil(share * len(ordered)) - 1] for share in ((1 - level) / 2, (1 + level) / 2)
    )


LEVEL = 0.7  # its quantiles lie well inside the probability of one outcome in the tests below


@pytest.mark.parametrize("name", BRUTE)
def test_the_interval_is_that_of_all_possible_resamples(name):
    values = np.array([[0.0, 1.0, 0.3], [0.2, 5.0, 0.9]])
    replicates = [
        BRUTE[name]([[row[i] for i in draw] for row, draw in zip(values, draws, strict=True)])
        for draws in every_resample(2, 3)
    ]
    interval = bootstrap(values, AGGREGATES[name], resamples=100_000, level=LEVEL)
    assert interval.point == pytest.approx(BRUTE[name](values))
    expected = exact_interval(replicates, LEVEL)
    np.testing.assert_allclose((interval.low, interval.high), expected, rtol=1e-9)


def test_the_paired_interval_is_that_of_all_possible_resamples():
    a = np.array([[0.0, 1.0], [2.0, 5.0]])
    b = np.array([[0.5, 1.25], [1.0, 7.5]])
    replicates = [
        brute_iqm([[row[i] for i in draw] for row, draw in zip(a, draws, strict=True)])
        - brute_iqm([[row[i] for i in draw] for row, draw in zip(b, draws, strict=True)])
        for draws in every_resample(2, 2)
    ]
    interval = paired_difference(a, b, resamples=50_000, level=LEVEL)
    assert interval.point == pytest.approx(brute_iqm(a) - brute_iqm(b))
    expected = exact_interval(replicates, LEVEL)
    np.testing.assert_allclose((interval.low, interval.high), expected, rtol=1e-9)


def test_the_interval_of_an_improvement_is_that_of_all_possible_resamples():
    a, b = np.array([[0.0, 1.0, 2.0]]), np.array([[0.5, 1.0]])
    replicates = [
        brute_superiority([[a[0, i] for i in draw_a]], [[b[0, i] for i in draw_b]])
        for (draw_a,) in every_resample(1, 3)
        for (draw_b,) in every_resample(1, 2)
    ]
    interval = probability_of_improvement(a, b, resamples=50_000, level=LEVEL)
    expected = exact_interval(replicates, LEVEL)
    np.testing.assert_allclose((interval.low, interval.high), expected, rtol=1e-9)


def test_games_are_kept_and_seeds_are_drawn_only_within_a_game():
    """Games far apart, seeds equal: only a draw over games could vary."""
    values = np.repeat(np.array([[0.0], [10.0], [1000.0]]), 5, axis=1)
    for statistic in AGGREGATES.values():
        interval = bootstrap(values, statistic, resamples=200)
        assert interval.low == interval.point == interval.high


def test_a_missing_run_stays_missing_in_every_replicate():
    """Each replicate has the runs that exist: as many, and of the same games."""
    values = np.array([[1.0, NAN, 2.0, NAN], [NAN, 13.0, 14.0, 15.0]])
    seen = []

    def watching(x):
        seen.append(x.reshape(-1, 2, 4))
        return mean(x)

    bootstrap(values, watching, resamples=300)
    replicates = np.concatenate([one for one in seen if len(one) > 1])
    assert len(replicates) == 300
    np.testing.assert_array_equal(
        np.isnan(replicates), np.broadcast_to(np.isnan(values), (300, 2, 4))
    )
    for game, known in enumerate(([1, 2], [13, 14, 15])):
        drawn = replicates[:, game]
        assert set(drawn[~np.isnan(drawn)]) == set(known)


def test_the_same_seed_gives_the_same_intervals_and_another_nearly_the_same():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 8, 5))
    times = rng.normal(size=(8, 5, 6))
    for call in (
        lambda seed: bootstrap(a, resamples=700, seed=seed),
        lambda seed: paired_difference(a, b, resamples=700, seed=seed),
        lambda seed: probability_of_improvement(a, b, resamples=700, seed=seed),
        lambda seed: curve(times, resamples=700, seed=seed),
    ):
        first, again, other = ([x.point, x.low, x.high] for x in map(call, (1, 1, 2)))
        np.testing.assert_array_equal(first, again)
        np.testing.assert_array_equal(first[0], other[0])
        assert np.any(np.not_equal(first, other))
        np.testing.assert_allclose(first, other, atol=0.1)


def test_a_lower_level_is_a_narrower_interval():
    values = np.random.default_rng(0).normal(size=(5, 5))
    wide, narrow = bootstrap(values), bootstrap(values, level=0.5)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_chunks_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    values, times = rng.normal(size=(4, 3)), rng.normal(size=(4, 3, 7))
    whole, whole_curve = bootstrap(values, resamples=101), curve(times, resamples=101)
    monkeypatch.setattr("bnmodes.analysis.resampling._CHUNK", 50)
    assert bootstrap(values, resamples=101) == whole
    np.testing.assert_array_equal(curve(times, resamples=101).low, whole_curve.low)


def test_a_paired_difference_uses_the_same_seeds_in_both_arms():
    """One arm is the other plus 1, so no draw of shared seeds can change the difference."""
    b = np.random.default_rng(0).integers(-99, 99, size=(4, 4)).astype(float)
    assert paired_difference(b + 1, b) == Interval(1.0, 1.0, 1.0)


def test_pairing_narrows_the_interval_of_seeds_that_go_together_and_widens_the_opposite():
    rng = np.random.default_rng(0)
    shared, noise = rng.normal(size=(6, 8)), 0.1 * rng.normal(size=(6, 8))

    def width(interval):
        return interval.high - interval.low

    unpaired = math.hypot(width(bootstrap(shared, mean)), width(bootstrap(shared + noise, mean)))
    assert width(paired_difference(shared + noise, shared, mean)) < 0.3 * unpaired
    assert width(paired_difference(noise - shared, shared, mean)) > 1.2 * unpaired


def test_a_seed_that_one_arm_lacks_is_in_neither_side_of_a_paired_difference():
    a = np.array([[1.0, 1000.0, 3.0, 5.0], [1.0, 2.0, 3.0, NAN]])
    b = np.array([[0.0, NAN, 2.0, 4.0], [0.0, 1.0, 2.0, -1000.0]])
    interval = paired_difference(a, b, mean)
    np.testing.assert_allclose((interval.point, interval.low, interval.high), 1.0)


def test_arms_that_share_no_seed_on_a_game_cannot_be_paired():
    with pytest.raises(UsageError, match="game number 0 "):
        paired_difference(np.array([[1.0, NAN]]), np.array([[NAN, 1.0]]))


def test_a_curve_has_the_statistic_at_each_time():
    values = np.random.default_rng(0).normal(size=(5, 4, 3))
    values[2, 1] = NAN
    for name, statistic in AGGREGATES.items():
        band = curve(values, statistic, resamples=50)
        expected = [BRUTE[name](values[..., time]) for time in range(3)]
        np.testing.assert_allclose(band.point, expected)
        assert (band.low < band.high).all()


def test_a_curve_draws_whole_runs():
    """Every replicate holds the same runs at all times; a draw at each time would mix them."""
    runs = np.random.default_rng(0).normal(size=(6, 4))
    watched = []

    def watching(x):
        watched.append(x)
        return mean(x)

    band = curve(np.stack([runs, -runs, runs], axis=-1), watching, resamples=40)
    for x in watched:  # times, ..., games, seeds
        np.testing.assert_array_equal(x[1], -x[0])
        np.testing.assert_array_equal(x[2], x[0])
    np.testing.assert_allclose(band.low[1], -band.high[0])
    np.testing.assert_allclose(band.high[1], -band.low[0])
    assert (band.low[2], band.high[2]) == (band.low[0], band.high[0])


def test_a_curve_at_one_time_is_the_bootstrap_of_that_time():
    values = np.random.default_rng(0).normal(size=(5, 4, 3))
    band, interval = curve(values), bootstrap(values[..., 1])
    np.testing.assert_allclose((band.low[1], band.high[1]), (interval.low, interval.high))


def test_a_run_that_is_there_only_at_some_times_is_an_error():
    values = np.ones((2, 3, 4))
    values[0, 0, 2] = NAN
    with pytest.raises(UsageError, match="at all times"):
        curve(values)


@given(data=st.data(), games=st.integers(1, 4))
def test_the_probability_of_improvement_is_the_brute_force_one(data, games):
    a, b = (data.draw(runs(games=st.just(games))) for _ in range(2))
    improvement = probability_of_improvement(a, b, resamples=20)
    assert improvement.point == pytest.approx(brute_superiority(a, b))
    if improvement.point in (0, 1):
        assert np.isnan(improvement.low)
        assert np.isnan(improvement.high)
    else:
        assert 0 <= improvement.low <= improvement.high <= 1
    assert probability_of_improvement(b, a, resamples=2).point == pytest.approx(
        1 - improvement.point
    )


def test_the_probability_of_improvement_of_hand_made_arms():
    a, b = np.array([[1.0, 2.0], [5.0, 5.0]]), np.array([[1.0, 1.5, 0.0], [9.0, 9.0, 9.0]])
    assert probability_of_improvement(a, b).point == pytest.approx((4.5 / 6 + 0) / 2)
    always = probability_of_improvement(b + 99, a)
    assert always.point == 1
    assert np.isnan([always.low, always.high]).all()


def test_the_probability_of_improvement_draws_the_two_arms_separately():
    """With the same draws in both, an arm against itself would be an exact tie each time."""
    arm = np.random.default_rng(0).normal(size=(3, 5))
    improvement = probability_of_improvement(arm, arm)
    assert improvement.point == pytest.approx(0.5)
    assert improvement.low < 0.4 < 0.6 < improvement.high


def test_a_percentage_scales_the_bounds_by_the_reference_point_only():
    interval = Interval(0.3, 0.2, 0.5)
    percent = percent_of_reference(interval, 0.2)
    np.testing.assert_allclose((percent.point, percent.low, percent.high), (150, 100, 250))
    assert interval.scaled(2.0) == Interval(0.6, 0.4, 1.0)


@pytest.mark.parametrize("reference", [0.0, -0.5, NAN])
def test_a_percentage_of_a_reference_that_is_not_positive_is_an_error(reference):
    with pytest.raises(UsageError, match="positive"):
        percent_of_reference(Interval(0.3, 0.2, 0.5), reference)


def test_numbers_that_differ_by_rounding_are_equal():
    a, b = np.array([0.1 + 0.2, 1e9, 1.0, NAN, 0.0]), np.array([0.3, 1e9 + 1e-3, 1.001, 1.0, 0.0])
    np.testing.assert_array_equal(compare(a, b), [0, 0, -1, NAN, 0])
