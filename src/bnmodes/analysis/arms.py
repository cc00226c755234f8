"""What a study's arms vary: updates per decision, momentum, and which arms make one line."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bnmodes.analysis.palette import HISTOGRAM
from bnmodes.changes import dotted
from bnmodes.studies.study import Arm, Study, StudyRun

_UTD = "updates_per_decision"
_UPDATE_WEIGHT = "protocol.predict.update"
"""The weight with which predictions update running statistics."""


def settings_of(arm: Arm, game: str) -> Any:
    """The agent's settings of an arm on a game."""
    return arm.settings(game)


def changes_of(arm: Arm) -> dict[str, Any]:
    """What an arm sets besides its base."""
    return dict(arm.changes)


def flat_settings(run: StudyRun) -> dict[str, Any]:
    """Everything that a run was set to, by dotted names such as "norm.kind"."""
    settings: Any = run.spec.settings
    return dotted(asdict(settings))


def utd_of(arm: Arm) -> float:
    """Updates per decision (UTD) where the study varies them; 0: as the agent has them."""
    return changes_of(arm).get(_UTD, 0.0)


def momentum_of(arm: Arm, game: str) -> float | None:
    """Flax's, 1 − α, of what predictions write; None where they write nothing."""
    update = settings_of(arm, game).protocol.predict.update
    return None if update is None else round(1 - update, 9)


def reading_roles(arm: Arm, game: str) -> list[str]:
    """Which roles read running statistics, of those that choose what is done or bootstrapped from.

    Next values that are kept from acting are the act role's, whatever bootstrap declares; an
    actor-critic's next action is its policy's, and its critics choose none.
    """
    settings = settings_of(arm, game)
    roles = ["act"]
    if settings.protocol.bootstrap_actor is not None:
        roles.append("bootstrap_actor")
    elif getattr(settings, "bootstrap_source", "recompute") == "recompute":
        roles.append("bootstrap")
    return [role for role in roles if getattr(settings.protocol, role).statistics == "running"]


def reads_throughout(arm: Arm, study: Study) -> bool:
    """Whether both acting and bootstrapping declare running statistics."""
    protocol = settings_of(arm, study.games[0]).protocol
    return protocol.act.statistics == protocol.bootstrap.statistics == "running"


def has_batchnorm(arm: Arm, game: str) -> bool:
    return settings_of(arm, game).capabilities(2).has_batchnorm


def short_name(arm: Arm) -> str:
    """Without its UTD, where that is said elsewhere."""
    return arm.name.removesuffix(f" UTD {utd_of(arm):g}").removesuffix(",")


def look_of(arm: Arm) -> str:
    """What decides an arm's colour: its base, and its head where that is a histogram."""
    return arm.base + HISTOGRAM * (changes_of(arm).get("head") == "hl-gauss")


@dataclass(frozen=True)
class Series:
    """Arms that differ in nothing but their updates per decision (UTD): one line of a figure."""

    label: str
    base: str
    by_utd: Mapping[float, Arm]

    @property
    def look(self) -> str:
        return look_of(next(iter(self.by_utd.values())))


def series_of(arms: Sequence[Arm]) -> tuple[Series, ...]:
    alike: dict[tuple, dict[float, Arm]] = {}
    for arm in arms:
        others = {name: value for name, value in changes_of(arm).items() if name != _UTD}
        key = (arm.base, arm.agent, repr(sorted(others.items())))
        line = alike.setdefault(key, {})
        if utd_of(arm) in line:  # the same twice, under two names
            line = alike.setdefault((*key, arm.name), {})
        line[utd_of(arm)] = arm
    return tuple(
        Series(short_name(next(iter(by_utd.values()))), key[0], by_utd)
        for key, by_utd in alike.items()
    )


@dataclass(frozen=True)
class Sweep:
    """Arms that differ in nothing but the weight with which predictions write."""

    label: str
    base: str
    by_momentum: Mapping[float | None, Arm]
    """Flax's; None for an arm that reads no running statistics when it acts or bootstraps."""

    @property
    def look(self) -> str:
        return look_of(next(iter(self.by_momentum.values())))


def sweeps_of(study: Study, arms: Sequence[Arm]) -> tuple[Sweep, ...]:
    """The settings are those on the study's first game."""
    game = study.games[0]
    alike: dict[tuple, dict[float | None, Arm]] = {}
    for arm in arms:
        protocol = settings_of(arm, game).protocol
        reads = "running" in (protocol.act.statistics, protocol.bootstrap.statistics)
        momentum = momentum_of(arm, game) if reads else None
        others = {k: v for k, v in changes_of(arm).items() if k != _UPDATE_WEIGHT}
        key = (arm.base, arm.agent, repr(sorted(others.items())))
        sweep = alike.setdefault(key, {})
        if momentum in sweep:
            sweep = alike.setdefault((*key, arm.name), {})
        sweep[momentum] = arm
    return tuple(
        Sweep(_without_momentum(next(iter(by_momentum.values())), game), key[0], by_momentum)
        for key, by_momentum in alike.items()
    )


def _without_momentum(arm: Arm, game: str) -> str:
    momentum = momentum_of(arm, game)
    if momentum is None:
        return arm.name
    return arm.name.removesuffix(f" {1 - momentum:g}").removesuffix(f" {momentum:g}")
