"""Aggregates over games and seeds, and what they would be with other seeds.

Arrays end in games × seeds. NaN is a missing run: it is left out, but a game without any run is an
error, because leaving it out changes the question. The bootstrap resamples seeds within each game
and keeps the games; a missing run stays missing, so that every replicate has as many runs as there
are.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from bnmodes.errors import UsageError

Statistic = Callable[..., np.ndarray | float]

_CHUNK = 2**17  # numbers that are resampled at once: few enough to stay in the cache


def iqm(values: Float[np.ndarray, "*batch games seeds"]) -> Float[np.ndarray, "*batch"] | float:
    """Interquartile mean: without the lowest and the highest floor(n/4) of all n runs."""
    ordered = np.sort(values.reshape(*values.shape[:-2], -1), axis=-1)  # NaN comes last
    total = ordered.shape[-1]
    if not np.isnan(ordered[..., -1]).any():
        return ordered[..., total // 4 : total - total // 4].mean(-1)
    _require_runs(values)
    number = (~np.isnan(ordered)).sum(-1, keepdims=True)
    rank, cut = np.arange(total), number // 4
    kept = (cut <= rank) & (rank < number - cut)
    return np.where(kept, ordered, 0).sum(-1) / kept.sum(-1)


def mean(values: Float[np.ndarray, "*batch games seeds"]) -> Float[np.ndarray, "*batch"] | float:
    """Of the games' means: each game counts the same, however many runs it has."""
    return _game_means(values).mean(-1)


def median(values: Float[np.ndarray, "*batch games seeds"]) -> Float[np.ndarray, "*batch"] | float:
    """Of the games' means."""
    return np.median(_game_means(values), axis=-1)


def optimality_gap(
    values: Float[np.ndarray, "*batch games seeds"],
) -> Float[np.ndarray, "*batch"] | float:
    """How far runs stay below 1 on average; what they reach above it does not count."""
    return 1 - mean(np.minimum(values, 1))


AGGREGATES: dict[str, Statistic] = {
    "IQM": iqm,
    "median": median,
    "mean": mean,
    "optimality gap": optimality_gap,
}


def _game_means(
    values: Float[np.ndarray, "*batch games seeds"],
) -> Float[np.ndarray, "*batch games"]:
    _require_runs(values)
    return np.nanmean(values, axis=-1)


def _require_runs(values: Float[np.ndarray, "*batch games seeds"]) -> None:
    empty = np.isnan(values).all(-1).reshape(-1, values.shape[-2]).any(0)
    if empty.any():
        places = ", ".join(str(place) for place in np.flatnonzero(empty))
        raise UsageError(
            f"no run of game number {places} (from 0): leave such games out or run them."
        )


@dataclass(frozen=True)
class Interval:
    point: float
    low: float
    high: float

    def scaled(self, factor: float) -> "Interval":
        """By a positive factor."""
        return Interval(self.point * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True)
class Band:
    """A pointwise interval along a curve."""

    point: Float[np.ndarray, " times"]
    low: Float[np.ndarray, " times"]
    high: Float[np.ndarray, " times"]


def percent_of_reference(interval: Interval, reference_point: float) -> Interval:
    """The reference's own uncertainty is not in it: only its point estimate is made 100."""
    if not reference_point > 0:
        raise UsageError(
            f"the reference's point estimate is {reference_point:g}: "
            "percentages need a positive one."
        )
    return interval.scaled(100 / reference_point)


def bootstrap(
    values: Float[np.ndarray, "games seeds"],
    statistic: Statistic = iqm,
    *,
    resamples: int = 5000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """A statistic of one arm with its percentile interval."""
    draws = _draw_runs(~np.isnan(values), resamples, np.random.default_rng(seed))
    return _interval(statistic(values), _replicates(statistic, (values, draws)), level)


def paired_difference(
    a: Float[np.ndarray, "games seeds"],
    b: Float[np.ndarray, "games seeds"],
    statistic: Statistic = iqm,
    *,
    resamples: int = 5000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """statistic(a) − statistic(b) with the same sampled seeds in both arms.

    A seed that one arm lacks on a game is left out of both there.
    """
    lacking = np.isnan(a) | np.isnan(b)
    a, b = np.where(lacking, np.nan, a), np.where(lacking, np.nan, b)
    draws = _draw_runs(~lacking, resamples, np.random.default_rng(seed))

    def difference(a, b):
        return statistic(a) - statistic(b)

    return _interval(difference(a, b), _replicates(difference, (a, draws), (b, draws)), level)


def curve(
    values: Float[np.ndarray, "games seeds times"],
    statistic: Statistic = iqm,
    *,
    resamples: int = 5000,
    level: float = 0.95,
    seed: int = 0,
) -> Band:
    """A statistic at each time; a replicate draws whole runs, the same at all times."""
    lacking = np.isnan(values)
    if (lacking.any(-1) != lacking.all(-1)).any():
        raise UsageError("a run must be there at all times of a curve or at none.")
    values = np.ascontiguousarray(np.moveaxis(values, -1, 0))  # times, games, seeds
    draws = _draw_runs(~lacking[..., 0], resamples, np.random.default_rng(seed))
    low, high = _percentiles(_replicates(statistic, (values, draws)), level)
    return Band(np.asarray(statistic(values)), low, high)


def probability_of_improvement(
    a: Float[np.ndarray, "games seeds_a"],
    b: Float[np.ndarray, "games seeds_b"],
    *,
    resamples: int = 5000,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Mean over games of P(a run of `a` beats a run of `b`), where a tie is half a win."""
    rng = np.random.default_rng(seed)
    draws_a = _draw_runs(~np.isnan(a), resamples, rng)
    draws_b = _draw_runs(~np.isnan(b), resamples, rng)
    replicates = _replicates(_superiority, (a, draws_a), (b, draws_b))
    return _interval(_superiority(a, b), replicates, level)


def _superiority(a: np.ndarray, b: np.ndarray) -> np.ndarray | float:
    _require_runs(a)
    _require_runs(b)
    ahead = a[..., :, None] - b[..., None, :]  # ..., games, seeds of a, seeds of b
    wins = (1 + np.sign(ahead)) / 2  # NaN where either is missing
    return np.nanmean(wins, axis=(-2, -1)).mean(-1)


def performance_profile(
    values: Float[np.ndarray, "games seeds"],
    thresholds: Float[np.ndarray, " times"],
    *,
    resamples: int = 5000,
    level: float = 0.95,
    seed: int = 0,
) -> Band:
    """Share of runs above each threshold, each game counting the same."""
    above = np.where(np.isnan(values)[..., None], np.nan, values[..., None] > thresholds)
    return curve(above, mean, resamples=resamples, level=level, seed=seed)


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


def _interval(point: np.ndarray | float, replicates: np.ndarray, level: float) -> Interval:
    low, high = _percentiles(replicates, level)
    return Interval(float(point), float(low), float(high))


def _percentiles(replicates: np.ndarray, level: float) -> np.ndarray:
    return np.quantile(replicates, [(1 - level) / 2, (1 + level) / 2], axis=-1)
