"""95% intervals of aggregates: what they would be with other seeds, the games being fixed.

The bootstrap draws seeds with replacement within each game; a missing run stays missing, so that
every replicate has as many runs as there are. Two intervals are made of the replicates:

- "percentile": their 2.5% and 97.5% quantiles, as in rliable. With n seeds a replicate varies with
  (n − 1)/n of the real variance, and that variance is itself estimated from few runs, so that these
  intervals are too narrow at few seeds.
- "stretched" (the default): the same quantiles, moved away from the point by both causes. A run's
  *part* is what it adds to the statistic; the spread of the parts within each game gives the
  variance of the sum and its degrees of freedom ν (Welch and Satterthwaite), and the quantiles are
  stretched by √(n/(n − 1)) and by Student's t over the normal quantile, after removing the bias
  that resampling has. docs/explanation/statistics.md has the coverage of both.
"""

import statistics as plain_statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from bnmodes.analysis.statistics import (
    Band,
    Interval,
    Statistic,
    compare,
    iqm,
    mean,
    median,
    optimality_gap,
    require_runs,
)
from bnmodes.errors import UsageError

IntervalKind = Literal["stretched", "percentile"]
INTERVALS: tuple[IntervalKind, ...] = ("stretched", "percentile")

_CHUNK = 2**17  # numbers that are resampled at once: few enough to stay in the cache
_ANGLES = np.linspace(0, np.pi / 2, 20_001)


@dataclass(frozen=True, kw_only=True)
class Resampling:
    """How an interval is made; every function here takes these fields as options."""

    interval: IntervalKind = "stretched"
    resamples: int = 5000
    level: float = 0.95
    seed: int = 0

    def draws(self, *present: Bool[np.ndarray, "games _"]) -> list[Int[np.ndarray, "_ games _"]]:
        """For each arm, which of its runs stand at its places in each resample."""
        masks = tuple((runs.shape, runs.tobytes()) for runs in present)
        return _draws(masks, self.resamples, self.seed)

    def bounds(
        self,
        point: np.ndarray | float,
        replicates: Float[np.ndarray, "*times resamples"],
        variances: list[tuple[np.ndarray, np.ndarray]],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Of the interval around `point`; `variances` are those of its parts."""
        tails = [(1 - self.level) / 2, (1 + self.level) / 2]
        quantiles = np.quantile(replicates, tails, axis=-1)
        if self.interval == "percentile":
            return np.asarray(quantiles[0]), np.asarray(quantiles[1])
        stretch, bias_factor = _stretch(variances, self.level)
        bias = bias_factor * (replicates.mean(-1) - point)
        low, high = point + stretch * (quantiles - point) - bias
        return np.asarray(low), np.asarray(high)


def bootstrap(
    values: Float[np.ndarray, "games seeds"], statistic: Statistic = iqm, **options
) -> Interval:
    """A statistic of one arm with its interval."""
    band = curve(values[..., None], statistic, **options)
    return Interval(*(float(of[0]) for of in (band.point, band.low, band.high)))


def curve(
    values: Float[np.ndarray, "games seeds times"], statistic: Statistic = iqm, **options
) -> Band:
    """A statistic at each time; a replicate draws whole runs, the same at all times."""
    how, lacking = Resampling(**options), np.isnan(values)
    if (lacking.any(-1) != lacking.all(-1)).any():
        raise UsageError("a run must be there at all times of a curve or at none.")
    values = np.ascontiguousarray(np.moveaxis(values, -1, 0))  # times, games, seeds
    (draws,) = how.draws(~lacking[..., 0])
    point = np.asarray(statistic(values))
    variances = [_variances(_parts(statistic)(values))]
    return Band(point, *how.bounds(point, _replicates(statistic, (values, draws)), variances))


def paired_difference(
    a: Float[np.ndarray, "games seeds"],
    b: Float[np.ndarray, "games seeds"],
    statistic: Statistic = iqm,
    **options,
) -> Interval:
    """statistic(a) − statistic(b) with the same sampled seeds in both arms.

    A seed that one arm lacks on a game is left out of both there.
    """
    how, (a, b) = Resampling(**options), shared_runs(a, b)
    (draws,) = how.draws(~np.isnan(a))

    def difference(a, b):
        return statistic(a) - statistic(b)

    parts, point = _parts(statistic), float(difference(a, b))
    replicates = _replicates(difference, (a, draws), (b, draws))
    low, high = how.bounds(point, replicates, [_variances(parts(a) - parts(b))])
    return Interval(point, float(low), float(high))


def shared_runs(
    a: Float[np.ndarray, "*batch games seeds"], b: Float[np.ndarray, "*batch games seeds"]
) -> tuple[Float[np.ndarray, "*batch games seeds"], Float[np.ndarray, "*batch games seeds"]]:
    """Both arms with NaN wherever one of them lacks the run."""
    lacking = np.isnan(a) | np.isnan(b)
    return np.where(lacking, np.nan, a), np.where(lacking, np.nan, b)


def probability_of_improvement(
    a: Float[np.ndarray, "games seeds_a"], b: Float[np.ndarray, "games seeds_b"], **options
) -> Interval:
    """Mean over games of P(a run of `a` beats a run of `b`), where a tie is half a win. If one arm
    wins every pair so does it in every resample, which says nothing of more seeds: no interval."""
    how = Resampling(**options)
    draws_a, draws_b = how.draws(~np.isnan(a), ~np.isnan(b))
    point, replicates = _superiority(a, b), _replicates(_superiority, (a, draws_a), (b, draws_b))
    if point in (0, 1):
        return Interval(float(point), np.nan, np.nan)
    wins, games = _wins(a, b), len(a)
    by_run = (_mean(wins, -1), _mean(wins, -2))
    variances = [
        _variances(shares / np.maximum(_count(shares), 1)[:, None] / games) for shares in by_run
    ]
    low, high = np.clip(how.bounds(point, replicates, variances), 0, 1)
    return Interval(float(point), float(low), float(high))


def _superiority(a: np.ndarray, b: np.ndarray) -> np.ndarray | float:
    require_runs(a)
    require_runs(b)
    return np.nanmean(_wins(a, b), axis=(-2, -1)).mean(-1)


def _wins(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """1, ½ or 0 for each pair of runs of a game; NaN where either is missing."""
    return (1 + compare(a[..., :, None], b[..., None, :])) / 2  # ..., games, seeds a, seeds b


def _count(values: np.ndarray) -> np.ndarray:
    return np.asarray((~np.isnan(values)).sum(-1))


def _mean(values: np.ndarray, axis: int) -> np.ndarray:
    """Over what is there; NaN, without a warning, where nothing is."""
    there = ~np.isnan(values)
    number = there.sum(axis)
    total = np.where(there, values, 0).sum(axis)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


# What each run adds to a statistic, up to a constant of its game.


def _mean_parts(values: Float[np.ndarray, "*batch games seeds"]) -> np.ndarray:
    games = values.shape[-2]
    return values / (games * np.maximum(_count(values), 1)[..., None])


def _gap_parts(values: Float[np.ndarray, "*batch games seeds"]) -> np.ndarray:
    return -_mean_parts(np.minimum(values, 1))


def _median_parts(values: Float[np.ndarray, "*batch games seeds"]) -> np.ndarray:
    """Of the games in the middle half: with other seeds, each of them may be the median one."""
    games = values.shape[-2]
    means = _mean(values, -1)
    rank = np.argsort(np.argsort(means, axis=-1), axis=-1)
    middle = (rank >= games // 4) & (rank < games - games // 4)
    return np.where(middle[..., None] | np.isnan(values), _mean_parts(values), 0.0)


def _iqm_parts(values: Float[np.ndarray, "*batch games seeds"]) -> np.ndarray:
    """Runs beyond the quartiles count as the nearest run inside them."""
    pooled = values.reshape(*values.shape[:-2], -1)
    number = _count(pooled)[..., None]
    ordered, cut = np.sort(pooled, axis=-1), number // 4
    low = np.take_along_axis(ordered, cut, -1)
    high = np.take_along_axis(ordered, number - cut - 1, -1)
    return (np.clip(pooled, low, high) / (number - 2 * cut)).reshape(values.shape)


def _parts(statistic: Statistic) -> Callable[[np.ndarray], np.ndarray]:
    """A statistic that is not one of ours gets the degrees of freedom of the mean."""
    known = {iqm: _iqm_parts, median: _median_parts, optimality_gap: _gap_parts, mean: _mean_parts}
    return known.get(statistic, _mean_parts)


def _variances(parts: Float[np.ndarray, "*batch games seeds"]) -> tuple[np.ndarray, np.ndarray]:
    """Of each game: the variance of the sum of its parts (NaN for one run), and its runs."""
    number = _count(parts)
    squares = np.where(np.isnan(parts), 0, parts - _mean(parts, -1)[..., None]) ** 2
    return np.where(
        number > 1, squares.sum(-1) * number / np.maximum(number - 1, 1), np.nan
    ), number


def _stretch(
    variances: list[tuple[np.ndarray, np.ndarray]], level: float
) -> tuple[np.ndarray, np.ndarray]:
    """By how much to stretch quantiles, and what to multiply the resampling's bias with.

    A game with one run counts with the mean variance of the others: its own cannot be known.
    """
    variance = np.concatenate([v for v, _ in variances], axis=-1)
    number = np.concatenate([np.broadcast_to(n, v.shape) for v, n in variances], axis=-1)
    known = ~np.isnan(variance)
    found = np.where(known, variance, 0.0)
    total = found.sum(-1)
    runs = np.where(known, number, 2)
    in_replicates = (found * (runs - 1) / runs).sum(-1)
    has_spread = in_replicates > 0
    whole = total * known.shape[-1] / np.maximum(known.sum(-1), 1)
    inflation = np.where(has_spread, whole / np.where(has_spread, in_replicates, 1), 1.0)
    squares = (found**2 / (runs + 1)).sum(-1)
    degrees = total**2 / np.where(has_spread, squares, 1) - 2
    least = np.where(known, runs - 1, np.inf).min(-1)
    most = np.where(known, runs - 1, 0).sum(-1)
    degrees = np.clip(degrees, np.where(np.isfinite(least), least, 1), np.maximum(most, 1))
    quantile = np.vectorize(lambda nu: t_quantile(round(float(nu), 2), level))(degrees)
    normal = plain_statistics.NormalDist().inv_cdf((1 + level) / 2)
    return np.where(has_spread, np.sqrt(inflation) * quantile / normal, 1.0), inflation


@cache
def t_quantile(degrees: float, level: float = 0.95) -> float:
    """How far from 0 the middle `level` of Student's t reaches.

    With t = √ν·tan θ, the density of θ is proportional to cos(θ)^(ν − 1).
    """
    density = np.cos(_ANGLES) ** (degrees - 1)
    area = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    angle = np.interp(level, area / area[-1], _ANGLES)
    return float(np.sqrt(degrees) * np.tan(angle))


@lru_cache(maxsize=8)
def _draws(masks: tuple[tuple[tuple[int, ...], bytes], ...], resamples: int, seed: int) -> list:
    """Kept, because most arms of a study have the same runs; whoever gets them only reads."""
    rng = np.random.default_rng(seed)
    present = [np.frombuffer(content, np.bool_).reshape(shape) for shape, content in masks]
    return [_draw_runs(runs, resamples, rng) for runs in present]


def _draw_runs(
    present: Bool[np.ndarray, "games seeds"], resamples: int, rng: np.random.Generator
) -> Int[np.ndarray, "resamples games seeds"]:
    """Which run stands at each place: a present one of the same game, or the missing one itself."""
    games, seeds = present.shape
    number = np.maximum(present.sum(-1, keepdims=True), 1)
    picks = rng.integers(0, number, size=(resamples, games, seeds))
    present_first = np.argsort(~present, axis=-1, kind="stable")
    drawn = np.take_along_axis(present_first[None], picks, axis=-1)
    return np.where(present, drawn, np.arange(seeds))


def _replicates(
    statistic: Statistic, *arms: tuple[np.ndarray, np.ndarray]
) -> Float[np.ndarray, "*times resamples"]:
    """The statistic of each resample. An arm is its values (*times, games, seeds) and its draws."""
    resamples = len(arms[0][1])
    step = max(1, _CHUNK // max(values.size for values, _ in arms))
    parts = [
        statistic(*(_resampled(values, draws[start : start + step]) for values, draws in arms))
        for start in range(0, resamples, step)
    ]
    return np.concatenate(parts, axis=-1)


def _resampled(
    values: Float[np.ndarray, "*times games seeds"], draws: Int[np.ndarray, "chunk games seeds"]
) -> Float[np.ndarray, "*times chunk games seeds"]:
    *times, games, seeds = values.shape
    place = draws + seeds * np.arange(games)[:, None]
    return values.reshape(*times, games * seeds).take(place, axis=-1)
