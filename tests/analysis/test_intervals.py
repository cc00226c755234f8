"""The stretched interval: what it is made of, and that it holds where the percentile one fails."""

import math

import numpy as np
import pytest

from bnmodes.analysis.resampling import (
    bootstrap,
    curve,
    paired_difference,
    probability_of_improvement,
    t_quantile,
)
from bnmodes.analysis.statistics import AGGREGATES, Interval, iqm, mean

NAN = float("nan")


@pytest.mark.parametrize(
    ("degrees", "quantile"),
    [(1, 12.7062), (2, 4.30265), (4, 2.77645), (10, 2.22814), (52, 2.00665), (1000, 1.96234)],
)
def test_the_quantiles_are_those_of_students_t(degrees, quantile):
    assert t_quantile(float(degrees)) == pytest.approx(quantile, rel=1e-5)


def test_of_one_game_it_is_students_interval_up_to_the_shape_of_the_resamples():
    """The mean of n normal runs of one game: ν = n − 1, so that the interval is Student's."""
    values = np.random.default_rng(3).normal(size=(1, 40))
    found = bootstrap(values, mean, resamples=20_000)
    half = t_quantile(39.0) * values.std(ddof=1) / math.sqrt(40)
    assert (found.low, found.high) == pytest.approx(
        (values.mean() - half, values.mean() + half), abs=0.02
    )


def by_hand(values, other=None):
    """The formula of the review for complete arms, in its own words."""
    games, n = values.shape

    def parts(x):
        total = x.size
        k = total // 4
        ordered = np.sort(x.ravel())
        return np.clip(x, ordered[k], ordered[total - k - 1]) / (total - 2 * k)

    w = parts(values) - (0 if other is None else parts(other))
    v = n * w.var(axis=1, ddof=1)
    nu = np.clip((n + 1) * v.sum() ** 2 / (v**2).sum() - 2, n - 1, games * (n - 1))
    return math.sqrt(n / (n - 1)) * t_quantile(round(float(nu), 2)) / 1.959964, n / (n - 1)


@pytest.mark.parametrize("is_contrast", [False, True])
def test_it_is_the_percentile_interval_stretched_about_the_point_without_its_bias(is_contrast):
    a, b = np.random.default_rng(1).lognormal(0, 1, size=(2, 6, 3))
    arms = (a, b) if is_contrast else (a,)
    of = paired_difference if is_contrast else bootstrap
    plain = of(*arms, interval="percentile", resamples=4000)
    found = of(*arms, resamples=4000)
    stretch, bias_factor = by_hand(*arms)
    # Both bounds move by the same bias, so that the width tells the stretch alone.
    assert found.high - found.low == pytest.approx(stretch * (plain.high - plain.low))
    draws = np.random.default_rng(0).integers(0, 3, size=(4000, 6, 3))
    picked = [np.take_along_axis(arm[None], draws, axis=-1) for arm in arms]
    replicates = iqm(picked[0]) - (iqm(picked[1]) if is_contrast else 0)
    bias = bias_factor * (replicates.mean() - plain.point)
    assert found.low == pytest.approx(plain.point + stretch * (plain.low - plain.point) - bias)


@pytest.mark.parametrize("family", ["normal", "lognormal"])
@pytest.mark.parametrize(("games", "seeds"), [(12, 3), (5, 3)])
def test_it_covers_the_truth_where_the_percentile_interval_does_not(family, games, seeds):
    """300 studies: the standard error of a share near 95% is 1.3%."""
    rng = np.random.default_rng(5)
    level, spread = rng.uniform(1, 4, (games, 1)), rng.uniform(0.1, 1.5, (games, 1))

    def runs(number):
        noise = rng.normal(size=(games, number))
        return level + spread * (noise if family == "normal" else np.exp(0.6 * noise))

    truth = iqm(runs(20_000))
    covered = {"stretched": 0, "percentile": 0}
    for study in range(300):
        values = runs(seeds)
        for kind in covered:
            found = bootstrap(values, interval=kind, resamples=300, seed=study)
            covered[kind] += found.low <= truth <= found.high
    assert 0.91 < covered["stretched"] / 300 <= 0.99
    assert covered["percentile"] / 300 < 0.91


def test_a_game_with_one_run_adds_the_spread_of_the_others():
    """Left out, its share of the variance would be missing, and the interval too narrow."""
    rng = np.random.default_rng(0)
    whole = rng.normal(size=(4, 3))
    torn = whole.copy()
    torn[3, 1:] = NAN
    others = bootstrap(whole[:3], mean)
    found = bootstrap(torn, mean)
    # Three games of four vary in the resamples, each with a quarter of the weight.
    in_resamples = (others.high - others.low) * 3 / 4
    assert found.high - found.low == pytest.approx(in_resamples * math.sqrt(4 / 3), rel=0.1)


def test_without_any_spread_to_see_it_is_the_point():
    one_seed = np.array([[1.0], [3.0]])
    assert bootstrap(one_seed, mean) == Interval(2.0, 2.0, 2.0)
    alike = np.repeat(one_seed, 3, axis=1)
    for statistic in AGGREGATES.values():
        found = bootstrap(alike, statistic)
        assert found.low == found.high == pytest.approx(found.point)


def test_a_band_is_the_interval_at_each_time():
    values = np.random.default_rng(0).lognormal(size=(5, 3, 4))
    values[1, 2] = NAN
    band = curve(values, resamples=500)
    for time in range(4):
        found = bootstrap(values[..., time], resamples=500)
        assert (band.low[time], band.high[time]) == pytest.approx((found.low, found.high))


def test_a_probability_stays_between_0_and_1_and_is_wider_than_the_percentile_one():
    a, b = np.random.default_rng(1).normal(size=(2, 3, 3))
    found, plain = (
        probability_of_improvement(a, b, interval=kind) for kind in ("stretched", "percentile")
    )
    assert found.point == plain.point
    assert 0 <= found.low <= plain.low
    assert plain.high <= found.high <= 1
    assert found.high - found.low > plain.high - plain.low
