"""Is one arm above another? Verdicts of a study's contrasts, by permutation tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from bnmodes.analysis.resampling import (
    IntervalKind,
    paired_difference,
    probability_of_improvement,
    shared_runs,
)
from bnmodes.analysis.significance import holm, permutation_p_values, smallest_possible_p
from bnmodes.analysis.statistics import Interval, compare, iqm, mean
from bnmodes.analysis.wording import p_value
from bnmodes.studies.study import Arm

ABOVE = "above"
BELOW = "below"
UNDECIDED = "no difference shown"
UNJUDGED = "too few runs to judge"

SIGNIFICANCE = 0.05
"""At most this share of studies whose arms are all equal calls any of them above or below."""
_CARRIED = 0.25
"""A difference of which less than this share is left without one game is carried by that game."""


@dataclass(frozen=True)
class Pair:
    """Two arms that the study compares, with their scores by measure."""

    arm: Arm
    other: Arm
    ours: Mapping[str, Float[np.ndarray, "games seeds"]]
    theirs: Mapping[str, Float[np.ndarray, "games seeds"]]


@dataclass(frozen=True)
class Contrast:
    """An arm minus another, by one measure."""

    arm: Arm
    other: Arm
    measure: str
    difference: Interval
    """Of the IQMs."""
    improvement: Interval
    """Probability that a run of the arm beats a run of the other on the same game."""
    p: float
    """Corrected for the measures and for the number of pairs of the study."""
    verdict: str
    games_ahead: int
    """On how many games the arm's mean is above the other's."""
    games: int
    carried_by: str | None
    """The game without which hardly anything of the difference is left, if there is one."""
    without_it: float
    """The difference without that game."""

    @property
    def told(self) -> str:
        """The verdict with its p-value, which means nothing where too few runs were made."""
        return self.verdict if self.verdict == UNJUDGED else f"{self.verdict}, {p_value(self.p)}"

    @property
    def contradicted(self) -> bool:
        """Whether the probability of improvement does not go the way of the IQMs."""
        sign = np.sign(self.difference.point)
        return bool(sign * (self.improvement.point - 0.5) <= 1e-9)


def judge(
    pairs: Sequence[Pair],
    games: Sequence[str],
    *,
    family: int = 0,
    interval: IntervalKind = "stretched",
    resamples: int = 5000,
) -> list[Contrast]:
    """The contrasts of all pairs, measure by measure, corrected for `family` pairs where the study
    declares more than these."""
    family = max(family, len(pairs))
    stacked = [
        tuple(np.array(list(side.values())) for side in (pair.ours, pair.theirs)) for pair in pairs
    ]
    p_values = holm([permutation_p_values(ours, theirs) for ours, theirs in stacked], family)
    found = []
    for place, measure in enumerate(pairs[0].ours if pairs else ()):
        for pair, corrected in zip(pairs, p_values, strict=True):
            ours, theirs = shared_runs(pair.ours[measure], pair.theirs[measure])
            options: dict[str, Any] = {"interval": interval, "resamples": resamples}
            difference = paired_difference(ours, theirs, **options)
            p, of_means = float(corrected[place]), float(mean(ours) - mean(theirs))
            ahead = compare(np.nanmean(ours, axis=-1), np.nanmean(theirs, axis=-1)) > 0
            carrier, left = _carrier(ours, theirs, difference.point)
            found.append(
                Contrast(
                    pair.arm,
                    pair.other,
                    measure,
                    difference,
                    probability_of_improvement(pair.ours[measure], pair.theirs[measure], **options),
                    p,
                    _verdict(p, difference.point, of_means, ~np.isnan(ours), family),
                    int(ahead.sum()),
                    len(games),
                    None if carrier is None else games[carrier],
                    left,
                )
            )
    return found


def _verdict(p: float, difference: float, of_means: float, present: np.ndarray, pairs: int) -> str:
    """`difference` is that of the IQMs, `of_means` that of the means, which p judges: where they
    do not go the same way nothing is claimed."""
    if p <= SIGNIFICANCE and difference * of_means > 0:
        return ABOVE if difference > 0 else BELOW
    if smallest_possible_p(present) * pairs > SIGNIFICANCE:
        return UNJUDGED
    return UNDECIDED


def _carrier(
    ours: Float[np.ndarray, "games seeds"], theirs: Float[np.ndarray, "games seeds"], whole: float
) -> tuple[int | None, float]:
    """The game that carries a difference, and the difference without it."""
    games = len(ours)
    if games < 2 or whole == 0:
        return None, whole
    without = np.array(
        [
            float(iqm(np.delete(ours, game, 0)) - iqm(np.delete(theirs, game, 0)))
            for game in range(games)
        ]
    )
    left = without * np.sign(whole)
    game = int(left.argmin())
    return (game, float(without[game])) if left[game] < _CARRIED * abs(whole) else (None, whole)
