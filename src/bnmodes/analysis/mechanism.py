"""What was measured inside the networks: mismatch of running statistics, dormant units, rank.

The paper argues that running statistics do not match what a forward meets. Here that is a number
for each run: its *exposure*, the share of greedy actions that running statistics change, over the
roles that choose actions and do read them; 0 where none does.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Bool, Float

from bnmodes.analysis.arms import has_batchnorm, reading_roles
from bnmodes.analysis.captions import diverged_words
from bnmodes.analysis.scores import placed
from bnmodes.analysis.statistics import Band, Statistic, iqm, mean
from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.analysis.wording import counted
from bnmodes.envs.registry import canonical_name
from bnmodes.studies.study import Arm

VALUE_ROLES = ("predict", "bootstrap", "act")
POLICY_ROLES = ("improve", "improve_critic", "bootstrap_actor")
DORMANT = "diagnostics/dormant_0.025"
RANK, SRANK = "diagnostics/one_batch_effective_rank", "diagnostics/one_batch_srank"
"""Of features that were normalised together; see docs/diagnostics.md."""
POOLED = {RANK: "diagnostics/effective_rank", SRANK: "diagnostics/srank"}
"""The same of minibatches that were normalised each by itself."""
_CHANGED = "/greedy_changed"


@dataclass(frozen=True)
class Measured:
    """One quantity of one arm on the study's diagnostic grid."""

    decisions: tuple[int, ...]
    values: Float[np.ndarray, "games seeds times"]
    make_band: Callable[..., Band]
    least: float = -np.inf
    most: float = np.inf
    """What it can be, and so can the bounds of its interval."""

    @cached_property
    def mean(self) -> Band:
        """Over games, with its pointwise interval."""
        return self._band(mean)

    @cached_property
    def iqm(self) -> Band:
        """Over games and seeds, with its pointwise interval."""
        return self._band(iqm)

    def _band(self, statistic: Statistic) -> Band:
        band = self.make_band(self.values, statistic)
        low, high = (np.clip(bound, self.least, self.most) for bound in (band.low, band.high))
        return Band(band.point, low, high)


def measured(numbers: StudyNumbers, arm: Arm, pattern: str) -> Measured | None:
    """The mean of all metrics that match, e.g. of a role's layers; None where none was recorded."""
    key = ("measured", arm.name, pattern)
    return numbers.once(key, lambda: _measure(numbers, arm, pattern))


def _measure(numbers: StudyNumbers, arm: Arm, pattern: str) -> Measured | None:
    by_arm = numbers.once(("rows", pattern), lambda: _matching_rows(numbers, pattern))
    rows: pl.DataFrame | None = by_arm.get((arm.name,))
    if rows is None:
        return None
    study = numbers.compared.study
    decisions = tuple(sorted(set(rows["decision"].to_list())))
    games = [canonical_name(game) for game in study.games]
    values = placed(rows, games, study.seeds, decisions)
    values[_diverged(numbers, arm)] = np.nan
    there = ~np.isnan(values).any((0, 1), where=~np.isnan(values).all(-1)[..., None])
    if not there.any() or np.isnan(values).all(-1).all(-1).any():
        return None
    values = values[..., there]
    shown = tuple(np.array(decisions)[there].tolist())
    is_share = pattern == DORMANT or pattern.endswith(_CHANGED)
    is_rank = pattern in POOLED or pattern in POOLED.values()
    least, most = 0.0 if is_share or is_rank else -np.inf, 1.0 if is_share else np.inf
    return Measured(shown, values, numbers.band, least, most)


def _diverged(numbers: StudyNumbers, arm: Arm) -> Bool[np.ndarray, "games seeds"]:
    """Runs of which nothing was measured after some time; the others are shown at all times."""
    gone, study = set(numbers.diverged), numbers.compared.study
    return np.array(
        [[(arm.name, canonical_name(g), s) in gone for s in study.seeds] for g in study.games]
    )


def _matching_rows(numbers: StudyNumbers, pattern: str) -> dict[Any, pl.DataFrame]:
    """By arm: the mean over the matching metrics of each run and time."""
    names = [name for name in numbers.compared.metrics if re.fullmatch(pattern, name)]
    if not names:
        return {}
    rows = numbers.compared.rows(names).filter(pl.col("value").is_finite())
    means = rows.group_by("arm", "game", "seed", "decision").agg(pl.col("value").mean())
    return means.partition_by("arm", as_dict=True)


def shift(numbers: StudyNumbers, arm: Arm, role: str, floor: bool = False) -> Measured | None:
    """Standardised mean shift of running statistics, mean over layers; or its noise floor."""
    ending = "mean_shift_floor" if floor else "mean_shift"
    return measured(numbers, arm, f"diagnostics/{role}/[^/]+/{ending}")


def halves_shift(numbers: StudyNumbers, arm: Arm, floor: bool = False) -> Measured | None:
    """Between (s, a) and (s′, a′) of an actor-critic's updates; the floor is of random halves."""
    return shift(numbers, arm, "halves", floor)


def greedy_changed(numbers: StudyNumbers, arm: Arm, role: str) -> Measured | None:
    return measured(numbers, arm, f"diagnostics/{role}{_CHANGED}")


def q_changed(numbers: StudyNumbers, arm: Arm, role: str) -> Measured | None:
    """Mean |change of Q|: of a critic, which judges actions and chooses none."""
    return measured(numbers, arm, f"diagnostics/{role}/q_change")


def max_q(numbers: StudyNumbers, arm: Arm, role: str) -> Measured | None:
    """Mean max-Q with the role's own statistics."""
    return measured(numbers, arm, f"diagnostics/{role}/max_q")


def exposure(numbers: StudyNumbers, arm: Arm) -> Float[np.ndarray, "games seeds"] | None:
    found = [greedy_changed(numbers, arm, role) for role in _readers(numbers, arm)]
    if not found:
        return np.where(_diverged(numbers, arm), np.nan, 0.0)
    there = [one.values.mean(-1) for one in found if one is not None]
    return np.mean(there, axis=0) if len(there) == len(found) else None


def _readers(numbers: StudyNumbers, arm: Arm) -> list[str]:
    return reading_roles(arm, numbers.results.study.games[0])


def batchnorm_arms(numbers: StudyNumbers) -> list[Arm]:
    game = numbers.results.study.games[0]
    return [arm for arm in numbers.arms if has_batchnorm(arm, game)]


def rank_correlation(a: Float[np.ndarray, " runs"], b: Float[np.ndarray, " runs"]) -> float:
    """Spearman's: Pearson's of the ranks, equal values sharing theirs; NaN if one is constant."""
    ranks = []
    for values in (a, b):
        below = (values[None, :] < values[:, None]).sum(1)
        same = (values[None, :] == values[:, None]).sum(1)
        ranks.append(below + (same - 1) / 2)
    x, y = (rank - rank.mean() for rank in ranks)
    size = np.sqrt((x**2).sum() * (y**2).sum())
    return float((x * y).sum() / size) if size else float("nan")


def sentences(numbers: StudyNumbers) -> list[str]:
    """Does the mismatch predict which arm fails? Within each game, over runs of BatchNorm arms."""
    arms = [arm for arm in batchnorm_arms(numbers) if exposure(numbers, arm) is not None]
    if len(arms) < 3 or not any(_readers(numbers, arm) for arm in arms):
        return []
    exposures = np.array([exposure(numbers, arm) for arm in arms])  # [arms, games, seeds]
    scores = np.array([numbers.values(arm, "auc") for arm in arms])
    by_game = []
    for game in range(exposures.shape[1]):
        pair = np.stack([exposures[:, game].ravel(), scores[:, game].ravel()])
        pair = pair[:, ~np.isnan(pair).any(0)]
        by_game.append(rank_correlation(*pair))
    readers = [bool(_readers(numbers, arm)) for arm in arms]
    listed = ", ".join(
        f"{arm.name} {np.nanmean(share):.0%}"
        for arm, share, reads in zip(arms, exposures, readers, strict=True)
        if reads
    )
    others = ", ".join(arm.name for arm, reads in zip(arms, readers, strict=True) if not reads)
    shown = (
        "Running statistics change this share of the greedy actions, while training, in the roles "
        f"that choose actions and read them: {listed}."
    ) + (f" In {others} none of these roles reads them: a share of 0." if others else "")
    shown += diverged_words(numbers, arms)
    if np.isnan(by_game).all():  # all alike: nothing to order by
        return [shown]
    together = float(np.nanmean(by_game))
    verdict = (
        "a run has a lower score the larger that share is"
        if together < -0.5
        else "a run has a higher score the larger that share is"
        if together > 0.5
        else "that share does not order the scores"
    )
    correlation, games = f"{together:+.2f}".replace("-", "−"), counted(len(by_game), "game")
    return [
        shown,
        f"Over the runs of these arms, {verdict}: its rank correlation with AUC within a game is "
        f"{correlation} (mean of {games}; it says nothing of causes).",
    ]
