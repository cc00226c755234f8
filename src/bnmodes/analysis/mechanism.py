"""What was measured inside the networks: mismatch of stored moments, dormant units, rank.

The paper argues that stored moments do not match what a forward meets. Here that is a number for
each run: its *exposure*, the share of greedy actions that stored moments change, over the roles
that choose actions and do read them; 0 where none does.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from jaxtyping import Float

from bnmodes.analysis.scores import placed
from bnmodes.analysis.statistics import Band, curve, mean
from bnmodes.analysis.study_numbers import StudyNumbers
from bnmodes.envs.registry import canonical_name
from bnmodes.studies.study import Arm

VALUE_ROLES = ("predict", "bootstrap", "act")
POLICY_ROLES = ("improve", "improve_critic", "bootstrap_actor")
DORMANT, RANK = "diagnostics/dormant_0.025", "diagnostics/effective_rank"


@dataclass(frozen=True)
class Measured:
    """One quantity of one arm on the study's diagnostic grid."""

    decisions: tuple[int, ...]
    values: Float[np.ndarray, "games seeds times"]

    def band(self, resamples: int) -> Band:
        """Mean over games with its pointwise interval."""
        return curve(self.values, mean, resamples=resamples)


def measured(numbers: StudyNumbers, arm: Arm, pattern: str) -> Measured | None:
    """The mean of all metrics that match, e.g. of a role's layers; None where none was recorded."""
    study = numbers.compared.study
    rows = (
        numbers.compared.frame.filter(
            pl.col("arm") == arm.name, pl.col("metric").str.contains(f"^{pattern}$")
        )
        .group_by("game", "seed", "decision")
        .agg(pl.col("value").mean())
    )
    if rows.is_empty():
        return None
    decisions = tuple(sorted(set(rows["decision"])))
    games = [canonical_name(game) for game in study.games]
    values = placed(rows, games, study.seeds, decisions)
    there = ~np.isnan(values).any((0, 1), where=~np.isnan(values).all(-1)[..., None])
    if not there.any() or np.isnan(values).all(-1).all(-1).any():
        return None
    return Measured(tuple(np.array(decisions)[there].tolist()), values[..., there])


def shift(numbers: StudyNumbers, arm: Arm, role: str, floor: bool = False) -> Measured | None:
    """Standardised mean shift of stored moments, mean over layers, or its sampling-noise floor."""
    ending = "mean_shift_floor" if floor else "mean_shift"
    return measured(numbers, arm, f"diagnostics/{role}/[^/]+/{ending}")


def halves_shift(numbers: StudyNumbers, arm: Arm, floor: bool = False) -> Measured | None:
    """Between (s, a) and (s′, a′) of an actor-critic's updates; the floor is of random halves."""
    return shift(numbers, arm, "halves", floor)


def greedy_changed(numbers: StudyNumbers, arm: Arm, role: str) -> Measured | None:
    return measured(numbers, arm, f"diagnostics/{role}/greedy_changed")


def q_changed(numbers: StudyNumbers, arm: Arm, role: str) -> Measured | None:
    """Mean |change of Q|: of a critic, which judges actions and chooses none."""
    return measured(numbers, arm, f"diagnostics/{role}/q_change")


def reading_roles(arm: Arm) -> list[str]:
    """Of those that choose what is done or bootstrapped from: who reads stored moments.

    Next values that are kept from acting are the act role's, whatever bootstrap declares; an
    actor-critic's next action is its policy's, and its critics choose none.
    """
    config = arm.config("atari")
    roles = ["act"]
    if config.protocol.bootstrap_actor is not None:
        roles.append("bootstrap_actor")
    elif getattr(config, "bootstrap_source", "recompute") == "recompute":
        roles.append("bootstrap")
    return [role for role in roles if getattr(config.protocol, role).statistics == "running"]


def exposure(numbers: StudyNumbers, arm: Arm) -> Float[np.ndarray, "games seeds"] | None:
    found = [greedy_changed(numbers, arm, role) for role in reading_roles(arm)]
    if not found:
        return np.zeros((len(numbers.compared.study.games), len(numbers.compared.study.seeds)))
    if any(one is None for one in found):
        return None
    return np.mean([one.values.mean(-1) for one in found], axis=0)


def batchnorm_arms(numbers: StudyNumbers) -> list[Arm]:
    return [arm for arm in numbers.arms if arm.config("atari").capabilities(2).has_batchnorm]


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
    if len(arms) < 3 or not any(reading_roles(arm) for arm in arms):
        return []
    exposures = np.array([exposure(numbers, arm) for arm in arms])  # [arms, games, seeds]
    scores = np.array([numbers.values(arm, "auc") for arm in arms])
    by_game = []
    for game in range(exposures.shape[1]):
        pair = np.stack([exposures[:, game].ravel(), scores[:, game].ravel()])
        pair = pair[:, ~np.isnan(pair).any(0)]
        by_game.append(rank_correlation(*pair))
    shares = np.nanmean(exposures, axis=(1, 2))
    listed = ", ".join(f"{arm.name} {share:.0%}" for arm, share in zip(arms, shares, strict=True))
    shown = (
        "Stored moments change this share of the greedy actions, while training, in the roles "
        f"that choose actions and read them: {listed}."
    )
    if np.isnan(by_game).all():  # all alike: nothing to order by
        return [shown]
    together = float(np.nanmean(by_game))
    verdict = (
        "the more, the lower the score"
        if together < -0.5
        else "the more, the higher the score"
        if together > 0.5
        else "this does not order the scores"
    )
    return [
        shown,
        f"Over the runs of these arms, {verdict}: rank correlation of that share with AUC within "
        f"a game {together:+.2f} (mean of {len(by_game)} games; it says nothing of causes).",
    ]
