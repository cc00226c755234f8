"""Factors of a screen: pairs of BatchNorm arms that a study compares at several settings, changed
one at a time from a baseline."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from bnmodes.analysis.arms import changes_of, has_batchnorm, settings_of
from bnmodes.studies.study import Arm, Study


@dataclass(frozen=True)
class Level:
    """A setting at which two arms are compared."""

    value: Any
    arm: Arm
    other: Arm


@dataclass(frozen=True)
class Factor:
    """A setting that is changed while all others stay at the baseline."""

    name: str
    """Dotted, e.g. "protocol.predict.update"."""
    levels: tuple[Level, ...]
    """In the order of their numbers, or names as declared, that of the baseline first."""


@dataclass(frozen=True)
class Screen:
    arm: Arm
    """At the baseline, as `other` is."""
    other: Arm
    factors: tuple[Factor, ...]


def screen_of(study: Study) -> Screen | None:
    """The factors of the study's declared contrasts; None where it is not a screen.

    The contrasts that count are of two BatchNorm arms with the same changes. All must have the same
    two arms of an agent; one is the baseline, and every other one change away from it.
    """
    pairs = [pair for pair in _pairs(study) if changes_of(pair[0]) == changes_of(pair[1])]
    if len({tuple((arm.agent, arm.base) for arm in pair) for pair in pairs}) != 1:
        return None
    common = reduce(lambda a, b: a & b, (_items(arm) for arm, _ in pairs))
    baseline = next((pair for pair in pairs if _items(pair[0]) == common), None)
    if baseline is None:
        return None
    by_name: dict[str, list[Level]] = {}
    for arm, other in pairs:
        changed = [name for name, _ in _items(arm) - common]
        if len(changed) > 1:
            return None
        for name in changed:
            start = Level(_setting(baseline[0], study.games[0], name), *baseline)
            levels = by_name.setdefault(name, [start])
            levels.append(Level(_setting(arm, study.games[0], name), arm, other))
    factors = tuple(Factor(name, _sorted(levels)) for name, levels in by_name.items())
    return Screen(*baseline, factors) if factors else None


def _pairs(study: Study) -> list[tuple[Arm, Arm]]:
    pairs = [(study.arm(each.arm), study.arm(each.other)) for each in study.contrasts]
    game = study.games[0]
    return [pair for pair in pairs if all(has_batchnorm(arm, game) for arm in pair)]


def _items(arm: Arm) -> frozenset[tuple[str, Any]]:
    return frozenset(changes_of(arm).items())


def _setting(arm: Arm, game: str, dotted: str) -> Any:
    return reduce(getattr, dotted.split("."), settings_of(arm, game))


def _sorted(levels: Sequence[Level]) -> tuple[Level, ...]:
    if any(isinstance(level.value, str) for level in levels):
        return tuple(levels)
    return tuple(sorted(levels, key=lambda level: level.value))
