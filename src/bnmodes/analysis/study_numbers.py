"""Every number of a study that its figures and its report show, each computed once."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import polars as pl
from jaxtyping import Float

from bnmodes.analysis.scores import HumanTable, Scores, auc, collect, final, normalised
from bnmodes.analysis.statistics import (
    Band,
    Interval,
    Statistic,
    bootstrap,
    curve,
    iqm,
    paired_difference,
    percent_of_reference,
    probability_of_improvement,
)
from bnmodes.envs.registry import canonical_name
from bnmodes.errors import UsageError
from bnmodes.studies.results import StudyResults
from bnmodes.studies.study import Arm

MEASURES = {"auc": auc, "final": final}
MEASURE_NAMES = {"auc": "AUC", "final": "Final"}


@dataclass(frozen=True)
class Series:
    """Arms that differ in nothing but their updates per decision (UTD): one line of a figure."""

    label: str
    base: str
    variant: int
    """How many series before this one start from the same base."""
    by_utd: Mapping[float, Arm]


def series_of(arms: tuple[Arm, ...]) -> tuple[Series, ...]:
    alike: dict[tuple, dict[float, Arm]] = {}
    for arm in arms:
        others = {k: v for k, v in arm.changes.items() if k != "updates_per_decision"}
        settings = (sorted(arm.weights.items()), sorted(others.items()))
        key = (arm.base, repr(settings))
        of_series = alike.setdefault(key, {})
        if arm.swept_utd in of_series:  # the same twice, under two names
            of_series = alike.setdefault((*key, arm.name), {})
        of_series[arm.swept_utd] = arm
    bases = [key[0] for key in alike]
    return tuple(
        Series(short_name(next(iter(by_utd.values()))), key[0], bases[:place].count(key[0]), by_utd)
        for place, (key, by_utd) in enumerate(alike.items())
    )


@dataclass(frozen=True)
class Sweep:
    """Arms that differ in nothing but the weight with which predictions write stored moments."""

    label: str
    base: str
    agent: str
    variant: int
    by_momentum: Mapping[float | None, Arm]
    """Flax's, 1 − α; None for an arm that reads no stored moment when it acts or bootstraps."""


def sweeps_of(arms: tuple[Arm, ...]) -> tuple[Sweep, ...]:
    alike: dict[tuple[str, str, str], dict[float | None, Arm]] = {}
    for arm in arms:
        protocol = arm.config("atari").protocol
        reads = "running" in (protocol.act.statistics, protocol.bootstrap.statistics)
        momentum = round(1 - protocol.predict.update, 9) if reads else None
        key = (arm.base, arm.agent, repr(sorted(arm.changes.items())))
        alike.setdefault(key, {})[momentum] = arm
    bases = [key[0] for key in alike]
    return tuple(
        Sweep(
            _without_momentum(next(iter(of_sweep.values()))),
            base,
            agent,
            bases[:place].count(base),
            of_sweep,
        )
        for place, ((base, agent, _), of_sweep) in enumerate(alike.items())
    )


def _without_momentum(arm: Arm) -> str:
    update = arm.config("atari").protocol.predict.update
    if update is None:
        return arm.name
    return arm.name.removesuffix(f" {update:g}").removesuffix(f" {1 - update:g}")


def short_name(arm: Arm) -> str:
    """Without its UTD, where that is said elsewhere."""
    return arm.name.removesuffix(f" UTD {arm.swept_utd:g}").removesuffix(",")


def comparable(results: StudyResults) -> StudyResults:
    """Arms with any run, and of these only the (game, seed) pairs that every one of them has.

    An aggregate over other games or seeds answers another question, so all arms get the same ones.
    """
    study = results.study
    gone = {(run.arm, run.game, run.seed) for run in results.missing}
    there = {
        arm.name: {
            (game, seed)
            for game in study.games
            for seed in study.seeds
            if (arm.name, game, seed) not in gone
        }
        for arm in study.arms
    }
    arms = [name for name, pairs in there.items() if pairs]
    common = set.intersection(*(there[name] for name in arms)) if arms else set()
    games = [game for game in study.games if any(game == where for where, _ in common)]
    if not games:
        raise UsageError(
            f"no game and seed of study {study.name} has a finished run of every arm: let it run "
            "on, or choose fewer arms."
        )
    kept = study.restricted(arms=arms, games=games)
    left_out = tuple(run for run in kept.runs if (run.game, run.seed) not in common)
    frame = results.frame
    for run in left_out:
        is_run = (pl.col("game") == canonical_name(run.game)) & (pl.col("seed") == run.seed)
        frame = frame.filter(~is_run)
    return replace(results, study=kept, frame=frame, missing=left_out)


class StudyNumbers:
    def __init__(
        self,
        results: StudyResults,
        *,
        allow_missing: bool = False,
        table: HumanTable = "wang2016",
        resamples: int = 5000,
    ):
        self.results = results
        self.allow_missing = allow_missing
        self.table = table
        self.resamples = resamples
        self.compared = comparable(results) if allow_missing else results
        self.arms = self.compared.study.arms  # those that have runs
        self.series = series_of(self.arms)
        self.sweeps = sweeps_of(self.arms)
        self.utds = tuple(sorted({arm.swept_utd for arm in self.arms}))
        # By name, because an arm holds a mapping, which has no hash.
        self._raw_of = cache(self._collect)
        self._scores_of = cache(self._normalise)
        self._interval_of = cache(self._bootstrap)

    def utd_name(self, utd: float) -> str:
        """Empty where the study has only one: then it is one setting among many."""
        return f"UTD {utd:g}" if len(self.utds) > 1 else ""

    def arms_at(self, utd: float) -> list[tuple[Series, Arm]]:
        return [(line, line.by_utd[utd]) for line in self.series if utd in line.by_utd]

    @property
    def reference(self) -> Arm | None:
        """None if it was not chosen or has no run."""
        name = self.results.study.reference
        return next((arm for arm in self.arms if arm.name == name), None)

    def counterpart(self, arm: Arm) -> Arm | None:
        """What an arm is compared with: the reference's own configuration at the same UTD."""
        if self.reference is None:
            return None
        line = next(line for line in self.series if self.reference in line.by_utd.values())
        other = line.by_utd.get(arm.swept_utd)
        return None if other == arm else other

    def raw(self, arm: Arm) -> Scores:
        """Returns on every declared game, whether or not other arms have it too."""
        return self._raw_of(arm.name)

    def scores(self, arm: Arm) -> Scores:
        return self._scores_of(arm.name)

    @property
    def unit(self) -> str:
        return self.scores(self.arms[0]).unit

    def values(self, arm: Arm, measure: str) -> Float[np.ndarray, "games seeds"]:
        return MEASURES[measure](self.scores(arm))

    def interval(self, arm: Arm, measure: str, statistic: Statistic = iqm) -> Interval:
        return self._interval_of(arm.name, measure, statistic)

    def reference_point(self, measure: str) -> float | None:
        """What 100% is; None where there is no reference, or none that can be divided by."""
        if self.reference is None:
            return None
        point = float(iqm(self.values(self.reference, measure)))
        return point if point > 0 else None

    def relative(self, arm: Arm, measure: str) -> Interval:
        """IQM in percent of the reference, or in its own unit where there are no percentages."""
        interval, whole = self.interval(arm, measure), self.reference_point(measure)
        return interval if whole is None else percent_of_reference(interval, whole)

    def difference(self, arm: Arm, other: Arm, measure: str) -> Interval:
        ours, theirs = self.values(arm, measure), self.values(other, measure)
        return paired_difference(ours, theirs, resamples=self.resamples)

    def improvement(self, arm: Arm, other: Arm, measure: str) -> Interval:
        ours, theirs = self.values(arm, measure), self.values(other, measure)
        return probability_of_improvement(ours, theirs, resamples=self.resamples)

    def curve(self, arm: Arm) -> Band:
        return curve(self.scores(arm).values, resamples=self.resamples)

    def missing_note(self, utds: Collection[float], *, compares_games: bool = True) -> str:
        """What is not in a figure of these UTDs; empty if nothing is missing."""
        study = self.results.study
        arms = [arm.name for arm in study.arms if arm.swept_utd in utds]
        missing = [run for run in self.results.missing if run.arm in arms]
        if not missing:
            return ""
        there = {arm.name for arm in self.arms}
        notes = [missing_text(len(missing), len(arms) * len(study.games) * len(study.seeds))]
        if without := [name for name in arms if name not in there]:
            notes.append(f"none of {', '.join(without)}")
        used = len(self.compared.study.games)
        if compares_games and used < len(study.games):
            notes.append(f"{used} of {len(study.games)} games compared")
        elif compares_games and self.compared.missing:
            notes.append("only seeds that every arm has are compared")
        return "; ".join(notes)

    def _collect(self, arm: str) -> Scores:
        return collect(self.results, arm, allow_missing=self.allow_missing)

    def _normalise(self, arm: str) -> Scores:
        if not self.compared.study.is_atari and self.reference is None:
            raise UsageError(
                f"scores are relative to the arm '{self.results.study.reference}', which has no "
                "run here: run it, or choose it too."
            )
        allow = self.allow_missing
        return normalised(self.compared, arm, table=self.table, allow_missing=allow)

    def _bootstrap(self, arm: str, measure: str, statistic: Statistic) -> Interval:
        values = MEASURES[measure](self._scores_of(arm))
        return bootstrap(values, statistic, resamples=self.resamples)


def missing_text(missing: int, declared: int) -> str:
    return f"{missing:,} of {declared:,} runs missing"
