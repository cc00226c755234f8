"""Aggregates over games and seeds: interquartile mean, median, mean, optimality gap.

Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice", 2021
(arXiv 2108.13264). Arrays end in games × seeds. NaN is a missing run: it is left out, but a game
without any run is an error, because leaving it out changes the question.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from bnmodes.errors import UsageError

Statistic = Callable[..., np.ndarray | float]

_ROUNDING = 1e-9  # numbers that differ by less, relative to their size, are equal


def iqm(values: Float[np.ndarray, "*batch games seeds"]) -> Float[np.ndarray, "*batch"] | float:
    """Interquartile mean: without the lowest and the highest floor(n/4) of all n runs."""
    ordered = np.sort(values.reshape(*values.shape[:-2], -1), axis=-1)  # NaN comes last
    total = ordered.shape[-1]
    if not np.isnan(ordered[..., -1]).any():
        return ordered[..., total // 4 : total - total // 4].mean(-1)
    require_runs(values)
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
    if not np.isnan(values).any():
        return values.mean(-1)
    require_runs(values)
    return np.nanmean(values, axis=-1)


def require_runs(values: Float[np.ndarray, "*batch games seeds"]) -> None:
    empty = np.isnan(values).all(-1).reshape(-1, values.shape[-2]).any(0)
    if empty.any():
        places = ", ".join(str(place) for place in np.flatnonzero(empty))
        raise UsageError(
            f"no run of game number {places} (from 0): leave such games out or run them."
        )


def compare(a: np.ndarray | float, b: np.ndarray | float) -> np.ndarray:
    """1 where a is larger, -1 where b is, 0 where only rounding tells them apart; NaN stays NaN."""
    size = np.maximum(np.abs(a), np.abs(b))
    difference = np.subtract(a, b)
    return np.where(np.abs(difference) <= _ROUNDING * size, 0.0, np.sign(difference))


@dataclass(frozen=True)
class Interval:
    """A point estimate and the bounds of its 95% interval."""

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


def along(intervals: Sequence[Interval]) -> Band:
    """Intervals side by side."""
    columns = ("point", "low", "high")
    return Band(*(np.array([getattr(one, name) for one in intervals]) for name in columns))


def percent_of_reference(interval: Interval, reference_point: float) -> Interval:
    """The reference's own uncertainty is not in it: only its point estimate is made 100."""
    if not reference_point > 0:
        raise UsageError(
            f"the reference's point estimate is {reference_point:g}: "
            "percentages need a positive one."
        )
    return interval.scaled(100 / reference_point)


def seed_means(values: Float[np.ndarray, "games seeds"]) -> Float[np.ndarray, " games"]:
    """NaN where no seed is there."""
    there = ~np.isnan(values)
    number = there.sum(-1)
    total = np.where(there, values, 0).sum(-1)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)
