"""What a study shows, in plain sentences, whichever way it falls."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from bnmodes.analysis import mechanism
from bnmodes.analysis.arms import short_name, utd_of
from bnmodes.analysis.contrasts import ABOVE, BELOW, SIGNIFICANCE, UNDECIDED, UNJUDGED, Contrast
from bnmodes.analysis.power import power_sentence
from bnmodes.analysis.resampling import shared_runs
from bnmodes.analysis.study_numbers import MEASURE_NAMES, MEASURES, StudyNumbers
from bnmodes.analysis.wording import counted, games_and_seeds, p_value, written
from bnmodes.studies.study import Arm

_DIVERGED = {
    "worst": "a return that is infinite or not a number counts as the worst return of any arm on "
    "that game",
    "left-out": "they are left out, and the same games and seeds of the other arms with them, as "
    "the study declares",
}
_TURNED = {ABOVE: BELOW, BELOW: ABOVE}
_LISTED = 5  # diverged runs that are named before they are only counted
_MOST_UNDECIDED = 2  # arms, no difference from which is shown, that are named


def headline(numbers: StudyNumbers) -> str:
    """One sentence with numbers, of what the bar chart shows first: AUC at the smallest UTD (that
    more than the reference has). Arms that are compared with the reference have their verdict too.
    """
    if len(numbers.arms) == 1:
        return f"There is one arm only: {numbers.arms[0].name}."
    others_at = {
        utd: [arm for _, arm in numbers.arms_at(utd) if arm != numbers.reference]
        for utd in numbers.utds
    }
    measure, utd = "auc", next(utd for utd in numbers.utds if others_at[utd])
    verdicts = {}
    for one in numbers.contrasts:
        if one.measure == measure:
            verdicts[one.arm.name, one.other.name] = one.verdict
            verdicts[one.other.name, one.arm.name] = _TURNED.get(one.verdict, one.verdict)
    percent = "%" if numbers.reference_point(measure) is not None else ""
    parts = []
    for arm in others_at[utd]:
        other = numbers.counterpart(arm)
        verdict = verdicts.get((arm.name, other.name)) if other else None
        shown = f" ({verdict})" if verdict in (ABOVE, BELOW, UNDECIDED) else ""
        said = written(numbers.relative(arm, measure), percent)
        parts.append(f"{short_name(arm)} {said}{shown}")
    of = f", in percent of {numbers.reference_name}" if percent else f", {numbers.unit}"
    at_utd = f" at {name}" if (name := numbers.utd_name(utd)) else ""
    return f"{MEASURE_NAMES[measure]} IQM{at_utd}{of}: {'; '.join(parts)}."


def summary(numbers: StudyNumbers) -> list[str]:
    """The verdicts, what speaks against them, what was measured, and what it all rests on."""
    found = numbers.contrasts
    sentences = [f"Take care: {warning}." for warning in numbers.results.study.warnings()]
    if numbers.reference is None:
        name = numbers.results.study.reference
        sentences.append(
            f"The reference arm {name} has no run here, so no arm is compared with it."
        )
    judged = [one for one in found if one.verdict != UNJUDGED]
    if found and not judged:
        size = _size(numbers, _pairs(found))
        sentences.append(
            f"No test is possible with {size}: so few runs could never show a difference. The "
            "numbers are directions."
        )
    for measure in MEASURES if judged else ():
        utds_of: dict[str, list[str]] = {}  # the same is said once, of all the UTDs it holds at
        for utd in numbers.utds:
            here = [one for one in found if one.measure == measure and utd_of(one.arm) == utd]
            if here:
                utds_of.setdefault(_compared(numbers, here), []).append(f"{utd:g}")
        for said, utds in utds_of.items():
            where = f"At UTD {_listed(utds)}, by" if len(numbers.utds) > 1 else "By"
            sentences.append(f"{where} {_in_words(measure)}: {said}.")
    sentences += [said for one in found if (said := _doubt(one))]
    if len(numbers.utds) > 1:
        sentences += [_best_utds(numbers, measure) for measure in MEASURES]
    return [*sentences, *mechanism.sentences(numbers), *_warnings(numbers), *_limits(numbers)]


def _compared(numbers: StudyNumbers, here: Sequence[Contrast]) -> str:
    """What is shown, by what an arm is compared with; then what is not. With sizes where there is
    one UTD."""
    by_other = [
        [one for one in here if one.other.name == other]
        for other in dict.fromkeys(one.other.name for one in here)
    ]
    decided = [part for group in by_other for part in _decided(numbers, group)]
    undecided = [part for group in by_other for part in _undecided(numbers, group)]
    if len(undecided) > _MOST_UNDECIDED:
        number = sum(one.verdict == UNDECIDED for one in here)
        which = f"{number} other" if decided else f"any of {number}"
        undecided = [f"no difference is shown in {which} contrasts at this size"]
    return "; ".join([*decided, *undecided, *(part for g in by_other for part in _unjudged(g))])


def _decided(numbers: StudyNumbers, here: Sequence[Contrast]) -> Iterator[str]:
    for verdict in (ABOVE, BELOW):
        if names := _names(here, verdict, lambda one: _effect(numbers, one)):
            yield f"{_listed(names)} {_is(names)} {verdict} {short_name(here[0].other)}"


def _undecided(numbers: StudyNumbers, here: Sequence[Contrast]) -> Iterator[str]:
    if names := _names(here, UNDECIDED):
        others = sum(utd_of(arm) == utd_of(here[0].arm) for arm in numbers.arms) - 1
        who = "any arm" if len(names) == others > 1 else _listed(names, "or")
        reference = short_name(here[0].other)
        yield f"no difference from {reference} is shown for {who} at this size"


def _unjudged(here: Sequence[Contrast]) -> Iterator[str]:
    if names := _names(here, UNJUDGED):
        yield (
            f"{_listed(names)} cannot be judged against {short_name(here[0].other)}, because so "
            "few runs could never show a difference"
        )


def _names(
    here: Sequence[Contrast], verdict: str, more: Callable[[Contrast], str] = lambda one: ""
) -> list[str]:
    return [short_name(one.arm) + more(one) for one in here if one.verdict == verdict]


def _effect(numbers: StudyNumbers, one: Contrast) -> str:
    """Size, interval and p-value of a difference; not where a sentence is of several UTDs."""
    if len(numbers.utds) > 1:
        return ""
    return f" ({written(one.difference, sign=True)}, {p_value(one.p)})"


def _doubt(one: Contrast) -> str:
    """What a reader of "above" or "below" would not expect; empty where there is nothing."""
    if one.verdict not in (ABOVE, BELOW) or not (one.contradicted or one.carried_by):
        return ""
    higher = "higher" if one.verdict == ABOVE else "lower"
    ahead = f"on {one.games_ahead} of {one.games} games its mean is above"
    chance = f"its runs win with probability {one.improvement.point:.2f}"
    begin = f"{one.arm.name}'s {higher} {_in_words(one.measure)} is not general: {ahead}, {chance}"
    if one.carried_by is None:
        return f"{begin}."
    left = f"{one.without_it:+.2g}".replace("-", "−")
    return f"{begin}, and without {one.carried_by} the difference is {left}."


def _best_utds(numbers: StudyNumbers, measure: str) -> str:
    parts = []
    for line in numbers.series:
        utd = max(line.by_utd, key=lambda u: numbers.interval(line.by_utd[u], measure).point)
        best = numbers.relative(line.by_utd[utd], measure).point
        shown = f"{best:.2f}" if numbers.reference_point(measure) is None else f"{best:.0f}%"
        parts.append(f"{line.label} at UTD {utd:g} ({shown})")
    of = f" in percent of {numbers.reference_name}" if numbers.reference_point(measure) else ""
    return f"The highest point estimate of {_in_words(measure)}{of}: {', '.join(parts)}."


def _warnings(numbers: StudyNumbers) -> list[str]:
    """Runs and games that are not what they seem."""
    sentences = []
    if numbers.diverged:
        listed = "; ".join(f"{a} on {g}, seed {s}" for a, g, s in numbers.diverged[:_LISTED])
        more = len(numbers.diverged) - _LISTED
        listed += f"; and {more} more" if more > 0 else ""
        runs = counted(len(numbers.diverged), "run")
        sentences.append(
            f"{runs} diverged ({listed}): {_DIVERGED[numbers.results.study.diverged]}."
        )
    if numbers.undividable:
        sentences.append(
            f"{numbers.reference_name} is not above 0 on {_listed(numbers.undividable)}, so that "
            "nothing can be relative to it there: left out of every relative score, and shown as "
            "raw returns only; --reference chooses another arm."
        )
    for game, ours, best in numbers.near_zero():
        sentences.append(
            f"On {game} the reference {numbers.reference_name} is near 0 (mean return {ours:.3g}, "
            f"another arm {best:.3g}), so that percentages say more of it than of the other arms; "
            "look at the raw returns, or choose another with --reference."
        )
    return sentences


def _limits(numbers: StudyNumbers) -> list[str]:
    """What the reader should hold against the sentences above."""
    found = numbers.contrasts
    if all(one.verdict == UNJUDGED for one in found):
        return []
    pairs = _pairs(found)
    count = counted(numbers.comparisons, "contrast")
    return [
        f"This rests on {_size(numbers, pairs)}. Verdicts are of permutation tests within games "
        f"(two measures; Holm's correction for {count}): if all arms were equal, at most "
        f"{SIGNIFICANCE:.0%} of such reports would call any of them above or below. "
        "No difference shown does not mean that there is none.",
        *filter(None, [power_sentence(numbers)]),
    ]


def _pairs(found: Sequence[Contrast]) -> list[tuple[Arm, Arm]]:
    """The arms that are compared, each pair once for both measures."""
    return list({(one.arm.name, one.other.name): (one.arm, one.other) for one in found}.values())


def _size(numbers: StudyNumbers, pairs: Sequence[tuple[Arm, Arm]]) -> str:
    """Games and the seeds that both arms have on each; games that have fewer are named."""
    games = numbers.scores(pairs[0][0]).games
    counts = np.min(
        [
            (~np.isnan(shared_runs(*(numbers.values(arm, "final") for arm in pair))[0])).sum(-1)
            for pair in pairs
        ],
        axis=0,
    )
    return games_and_seeds(dict(zip(games, counts.tolist(), strict=True)))


def _in_words(measure: str) -> str:
    return "final score" if measure == "final" else MEASURE_NAMES[measure]


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _listed(names: Sequence[str], word: str = "and") -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {word} {names[-1]}"
