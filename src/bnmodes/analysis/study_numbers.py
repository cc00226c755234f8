"""The numbers of a study that its figures and its report show.

Returns are collected once, normalised once, and every interval, contrast and measured quantity that
is asked for is kept, so that whoever asks again gets the same numbers without computing them again.
"""

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import polars as pl
from jaxtyping import Float

from bnmodes.analysis.arms import Series, series_of, sweeps_of, utd_of
from bnmodes.analysis.comparable import comparable
from bnmodes.analysis.contrasts import Contrast, Pair, judge
from bnmodes.analysis.palette import ArmStyle, styles_of
from bnmodes.analysis.resampling import IntervalKind, bootstrap, curve
from bnmodes.analysis.scores import (
    HumanTable,
    Scores,
    auc,
    collect,
    final,
    has_human_scores,
    human_normalised,
    judge_diverged,
    reference_normalised,
    reference_scale,
)
from bnmodes.analysis.statistics import Band, Interval, Statistic, iqm, percent_of_reference
from bnmodes.envs.registry import canonical_name
from bnmodes.errors import UsageError
from bnmodes.studies.results import StudyResults
from bnmodes.studies.study import Arm, StudyRun

if TYPE_CHECKING:
    from bnmodes.analysis.published_arms import PublishedArm

MEASURES = {"auc": auc, "final": final}
MEASURE_NAMES = {"auc": "AUC", "final": "Final"}
_NEAR_ZERO = 10.0
"""A reference that another arm exceeds by this factor on a game is called near 0 there."""

_NEAR_RANDOM = 0.05
"""A human-normalised IQM up to this is too near to random play, 0, to be called 100%."""

Found = TypeVar("Found")


class StudyNumbers:
    def __init__(
        self,
        results: StudyResults,
        *,
        allow_missing: bool = False,
        table: HumanTable = "wang2016",
        resamples: int = 5000,
        interval: IntervalKind = "stretched",
        reference: str | None = None,
        contrasts: Sequence[tuple[str, str]] | None = None,
        published: "Sequence[PublishedArm]" = (),
    ):
        """`reference` replaces the study's; `contrasts` are pairs of arms' names, arm and other.

        Without `contrasts`, they are those that the study declares; where it declares none, each
        arm is compared with the reference, at the same UTD if it varies. Of a part of a study they
        are corrected for as many as the whole would test.
        `published` are arms of others, which stand beside the study's in figures.
        """
        if reference is not None:
            (name,) = (arm.name for arm in results.study.restricted(arms=[reference]).arms)
            results = replace(results, study=replace(results.study, reference=name))
        self.results = results
        self.allow_missing = allow_missing
        self.table = table
        self.resamples = resamples
        self.interval_kind = interval
        self.published = tuple(published)
        declared = [(each.arm, each.other) for each in results.study.contrasts]
        self._named_contrasts = declared if contrasts is None else contrasts
        self._names_all = contrasts is not None or bool(results.study.whole.contrasts)
        self._kept: dict[Hashable, Any] = {}
        self._raw, self.diverged = judge_diverged(
            {
                arm.name: collect(results, arm.name, allow_missing=allow_missing)
                for arm in results.study.arms
            },
            results.study.diverged,
        )
        compared = results
        if results.study.diverged == "left-out":
            compared = replace(results, missing=(*results.missing, *self._runs(self.diverged)))
        if allow_missing or compared is not results:
            compared = comparable(compared)
        self.arms = compared.study.arms  # those that have runs
        self.series = series_of(self.arms)
        self.sweeps = sweeps_of(results.study, self.arms)
        self.utds = tuple(sorted({utd_of(arm) for arm in self.arms}))
        self.human = has_human_scores([canonical_name(g) for g in compared.study.games], table)
        self.compared = compared
        self.undividable = () if self.human else self._undividable()
        """Games on which scores cannot be relative, because the reference is not above 0 there."""
        if self.undividable:
            kept = [g for g in compared.study.games if canonical_name(g) not in self.undividable]
            self.compared = replace(compared, study=compared.study.restricted(games=kept))

    def once(self, key: Hashable, compute: Callable[[], Found]) -> Found:
        """What was computed under this key, or what `compute` gives, kept from now on."""
        if key not in self._kept:
            self._kept[key] = compute()
        return self._kept[key]

    def _runs(self, named: Collection[tuple[str, str, int]]) -> list[StudyRun]:
        """The declared runs of these arms, games and seeds."""
        runs = self.results.study.runs
        return [run for run in runs if (run.arm, canonical_name(run.game), run.seed) in named]

    def utd_name(self, utd: float) -> str:
        """Empty where the study does not vary it: then it is one setting among many."""
        return f"UTD {utd:g}" if utd else ""

    def arms_at(self, utd: float) -> list[tuple[Series, Arm]]:
        return [(line, line.by_utd[utd]) for line in self.series if utd in line.by_utd]

    def style(self, arm: Arm, *, by_normaliser: bool = False) -> ArmStyle:
        """Arms that differ only in UTD look the same. Arms without runs count too.

        `by_normaliser`: heads differ by dashes and shade only, so that the hue is the normaliser's.
        """
        return self.once(("styles", by_normaliser), lambda: self._styles(by_normaliser))[arm.name]

    def _styles(self, by_normaliser: bool) -> dict[str, ArmStyle]:
        lines = series_of(self.results.study.arms)
        styles = styles_of([line.base if by_normaliser else line.look for line in lines])
        return {
            arm.name: style
            for line, style in zip(lines, styles, strict=True)
            for arm in line.by_utd.values()
        }

    @cached_property
    def frames_per_decision(self) -> int:
        """As the rows say; 1 where games differ."""
        last = self.results.returns.filter(pl.col("decision") > 0)
        ratios = (last["frame"] / last["decision"]).round(6).unique()
        return int(ratios[0]) if len(ratios) == 1 and float(ratios[0]).is_integer() else 1

    @property
    def reference_name(self) -> str:
        return self.results.study.reference

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
        other = line.by_utd.get(utd_of(arm))
        return None if other == arm else other

    def raw(self, arm: Arm) -> Scores:
        """Returns on every declared game, whether or not other arms have it too."""
        return self._raw[arm.name]

    def scores(self, arm: Arm) -> Scores:
        """Normalised, on the games and seeds on which the arms are compared."""
        return self.once(("scores", arm.name), lambda: self.normalise(self._compared_raw(arm)))

    @property
    def unit(self) -> str:
        return self.scores(self.arms[0]).unit

    def values(self, arm: Arm, measure: str) -> Float[np.ndarray, "games seeds"]:
        key = ("values", arm.name, measure)
        return self.once(key, lambda: MEASURES[measure](self.scores(arm)))

    def interval(self, arm: Arm, measure: str, statistic: Statistic = iqm) -> Interval:
        return self.once(
            ("interval", arm.name, measure, statistic),
            lambda: bootstrap(self.values(arm, measure), statistic, **self._options),
        )

    def reference_point(self, measure: str) -> float | None:
        """What 100% is; None where there is no reference, or one near 0 by either measure."""
        return self._reference_points.get(measure)

    @cached_property
    def _reference_points(self) -> dict[str, float]:
        """By measure; empty where there are no percentages."""
        if self.reference is None:
            return {}
        points = {m: float(iqm(self.values(self.reference, m))) for m in MEASURES}
        least = _NEAR_RANDOM if self.human else 0.0
        return points if all(point > least for point in points.values()) else {}

    def relative(self, arm: Arm, measure: str) -> Interval:
        """IQM in percent of the reference, or in its own unit where there are no percentages."""
        interval, whole = self.interval(arm, measure), self.reference_point(measure)
        return interval if whole is None else percent_of_reference(interval, whole)

    def relative_unit(self, measure: str) -> str:
        if self.reference_point(measure) is None:
            return self.unit
        return f"% of {self.reference_name}"

    @cached_property
    def contrasts(self) -> list[Contrast]:
        """Of the pairs that both have runs, with verdicts; measure by measure."""
        if self._names_all:
            by_name = {arm.name: arm for arm in self.arms}
            named = self._named_contrasts
            pairs = [(by_name[a], by_name[b]) for a, b in named if {a, b} <= by_name.keys()]
        else:
            pairs = [(arm, other) for arm in self.arms if (other := self.counterpart(arm))]
        judged = [
            Pair(a, b, *({m: self.values(x, m) for m in MEASURES} for x in (a, b)))
            for a, b in pairs
        ]
        games = self.scores(self.arms[0]).games if pairs else ()
        return judge(
            judged,
            games,
            family=self.comparisons,
            interval=self.interval_kind,
            resamples=self.resamples,
        )

    @property
    def comparisons(self) -> int:
        """Pairs of arms that p-values are corrected for."""
        return max(len(self._named_contrasts), self.results.study.whole.comparisons)

    def curve(self, arm: Arm) -> Band:
        key = ("curve", arm.name)
        return self.once(key, lambda: curve(self.scores(arm).values, **self._options))

    def band(self, values: Float[np.ndarray, "games seeds times"], statistic: Statistic) -> Band:
        return curve(values, statistic, **self._options)

    @property
    def interval_words(self) -> str:
        """What intervals are, or that there are none."""
        kind = "stretched" if self.interval_kind == "stretched" else "plain percentile"
        words = f"95% intervals from resampled seeds ({kind}), games fixed"
        return words if self.has_intervals else "one seed has no intervals"

    @cached_property
    def has_intervals(self) -> bool:
        """Not with one seed."""
        return max(self.scores(arm).most_seeds for arm in self.arms) > 1

    def near_zero(self) -> list[tuple[str, float, float]]:
        """Games on which the reference is near 0: its mean AUC, and the largest of any arm."""
        if self.human or self.reference is None:
            return []
        scale = reference_scale(self.raw(self.reference))
        games = self.scores(self.reference).games
        found = []
        for game in games:
            best = max(reference_scale(self.raw(arm))[game] for arm in self.arms)
            if scale[game] > 0 and best > _NEAR_ZERO * scale[game]:
                found.append((game, scale[game], best))
        return found

    def missing_note(self, utds: Collection[float], *, compares_games: bool = True) -> str:
        """What is not in a figure of these UTDs; empty if nothing is missing."""
        study = self.results.study
        arms = [arm.name for arm in study.arms if utd_of(arm) in utds]
        missing = [run for run in self.results.missing if run.arm in arms]
        notes = []
        if missing:
            there = {arm.name for arm in self.arms}
            notes = [missing_text(len(missing), len(arms) * len(study.games) * len(study.seeds))]
            if without := [name for name in arms if name not in there]:
                notes.append(f"none of {', '.join(without)}")
        used = len(self.compared.study.games) + len(self.undividable)
        if compares_games and used < len(study.games):  # because of any arm, also at other UTDs
            notes.append(f"{used} of {len(study.games)} games compared")
        elif compares_games and self.compared.missing:
            notes.append("only seeds that every arm has are compared")
        if compares_games and self.undividable:
            notes.append(f"without {', '.join(self.undividable)}: reference not above 0")
        return "; ".join(notes)

    @property
    def _options(self) -> dict:
        return {"resamples": self.resamples, "interval": self.interval_kind}

    def _compared_raw(self, arm: Arm) -> Scores:
        """Raw returns on the compared games, without the seeds that some arm lacks."""
        raw = self.raw(arm)
        scores = raw.only([canonical_name(game) for game in self.compared.study.games])
        lacking = {(canonical_name(run.game), run.seed) for run in self.compared.missing}
        if not lacking:
            return scores
        gone = np.array([[(g, s) in lacking for s in scores.seeds] for g in scores.games])
        return replace(scores, values=np.where(gone[..., None], np.nan, scores.values))

    def _undividable(self) -> tuple[str, ...]:
        if self.reference is None:
            raise UsageError(
                f"scores are relative to the arm '{self.results.study.reference}', which has no "
                "run here: run it, choose it too, or name another with --reference."
            )
        scale = reference_scale(self._compared_raw(self.reference))
        bad = tuple(game for game, size in scale.items() if not size > 0)
        if len(bad) == len(scale) > 1:
            usable = [
                arm.name for arm in self.arms if max(reference_scale(self.raw(arm)).values()) > 0
            ]
            raise UsageError(
                f"the mean return of the reference '{self.reference_name}' is above 0 on no game, "
                "so that nothing can be relative to it: choose another with --reference"
                + (f" (for example '{usable[0]}')." if usable else ".")
            )
        return bad if len(scale) > 1 else ()

    def normalise(self, scores: Scores) -> Scores:
        """Raw returns on the compared games, in the unit of the study's scores."""
        if self.human:
            return human_normalised(scores, self.table)
        reference = self._compared_raw(self.results.study.arm(self.reference_name))
        if not max(reference_scale(reference).values()) > 0:
            return scores  # one game: its raw returns can be compared as they are
        return reference_normalised(scores, reference, self.reference_name)


def missing_text(missing: int, declared: int) -> str:
    return f"{missing:,} of {declared:,} runs missing"
