"""What a study's contrasts show, in plain sentences, whichever way they fall."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bnmodes.analysis import mechanism
from bnmodes.analysis.statistics import Interval
from bnmodes.analysis.study_numbers import MEASURE_NAMES, MEASURES, StudyNumbers, short_name
from bnmodes.studies.study import Arm

ABOVE = "above"
BELOW = "below"
UNDECIDED = "no difference shown at this size"
UNJUDGED = "one seed: no interval"


@dataclass(frozen=True)
class Contrast:
    """An arm minus the reference's configuration at the same UTD."""

    arm: Arm
    other: Arm
    measure: str
    difference: Interval
    improvement: Interval
    verdict: str


def contrasts(numbers: StudyNumbers) -> list[Contrast]:
    found = []
    for measure in MEASURES:
        for arm in numbers.arms:
            other = numbers.counterpart(arm)
            if other is None:
                continue
            difference = numbers.difference(arm, other, measure)
            shared = _shared_seeds(numbers, arm, other)
            improvement = numbers.improvement(arm, other, measure)
            verdict = verdict_of(difference, shared)
            found.append(Contrast(arm, other, measure, difference, improvement, verdict))
    return found


def _shared_seeds(numbers: StudyNumbers, arm: Arm, other: Arm) -> int:
    """Of the game that has fewest: there the resampling knows least."""
    both = numbers.values(arm, "final") + numbers.values(other, "final")
    return int((~np.isnan(both)).sum(-1).min())


def verdict_of(difference: Interval, seeds: int) -> str:
    if seeds < 2:  # resampling one run gives that run, so the interval is a point
        return UNJUDGED
    if difference.low > 0:
        return ABOVE
    return BELOW if difference.high < 0 else UNDECIDED


def summary(numbers: StudyNumbers, found: Sequence[Contrast]) -> list[str]:
    sentences = []
    if numbers.reference is None:
        name = numbers.results.study.reference
        sentences.append(f"The reference arm {name} has no run here, so no arm is compared.")
    for measure in MEASURES:
        utds_of: dict[str, list[str]] = {}  # the same is said once, of all the UTDs it holds at
        for utd in numbers.utds:
            here = [
                contrast
                for contrast in found
                if contrast.measure == measure and contrast.arm.swept_utd == utd
            ]
            if here:
                utds_of.setdefault(_compared(here), []).append(f"{utd:g}")
        for said, utds in utds_of.items():
            where = f"At UTD {_listed(utds)}, by" if len(numbers.utds) > 1 else "By"
            sentences.append(f"{where} {_in_words(measure)}: {said}.")
    if len(numbers.utds) > 1:
        sentences += [_best_utds(numbers, measure) for measure in MEASURES]
    return [*sentences, *mechanism.sentences(numbers), *_limits(numbers, found)]


def _compared(here: Sequence[Contrast]) -> str:
    reference = short_name(here[0].other)
    by_verdict = {
        verdict: [short_name(contrast.arm) for contrast in here if contrast.verdict == verdict]
        for verdict in (ABOVE, BELOW, UNDECIDED, UNJUDGED)
    }
    parts = [
        f"{_listed(arms)} {'is' if len(arms) == 1 else 'are'} {verdict} {reference}"
        for verdict in (ABOVE, BELOW)
        if (arms := by_verdict[verdict])
    ]
    if arms := by_verdict[UNDECIDED]:
        every = len(arms) == len(here) > 1
        who = "any arm" if every else _listed(arms, "or")
        parts.append(f"no difference from {reference} is shown for {who} at this size")
    if arms := by_verdict[UNJUDGED]:
        parts.append(f"{_listed(arms)} cannot be judged from one seed per game")
    return "; ".join(parts)


def _best_utds(numbers: StudyNumbers, measure: str) -> str:
    parts = []
    for line in numbers.series:
        utd = max(line.by_utd, key=lambda u: numbers.interval(line.by_utd[u], measure).point)
        best = numbers.relative(line.by_utd[utd], measure).point
        shown = f"{best:.2f}" if numbers.reference_point(measure) is None else f"{best:.0f}%"
        parts.append(f"{line.label} at UTD {utd:g} ({shown})")
    of = f" in percent of {numbers.reference.name}" if numbers.reference_point(measure) else ""
    return f"The highest point estimate of {_in_words(measure)}{of}: {', '.join(parts)}."


def _limits(numbers: StudyNumbers, found: Sequence[Contrast]) -> list[str]:
    """What the reader should hold against the sentences above."""
    games = len(numbers.compared.study.games)
    seeds = min((_shared_seeds(numbers, c.arm, c.other) for c in found), default=0)
    if seeds < 2 or not found:
        return []
    return [
        f"This rests on {games} game{'s' * (games > 1)} and {seeds} seeds. Resampled seeds vary "
        f"less than new ones: without any difference, about {false_alarms(seeds):.0%} of such "
        f"intervals exclude 0 (more on few games), and the {len(found)} here are not corrected for "
        "their number. A bound close to 0 decides nothing."
    ]


def false_alarms(seeds: int) -> float:
    """Share of 95% bootstrap intervals of no difference that exclude 0, for a normal mean.

    The variance of n resampled values is (n − 1)/n of the real one, in every game.
    """
    return math.erfc(1.96 * math.sqrt((seeds - 1) / seeds) / math.sqrt(2))


def _in_words(measure: str) -> str:
    return "final score" if measure == "final" else MEASURE_NAMES[measure]


def _listed(names: Sequence[str], word: str = "and") -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {word} {names[-1]}"
