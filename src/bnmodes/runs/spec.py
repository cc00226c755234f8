"""A run as data: everything that its result depends on, and the hash that names it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, fields, is_dataclass
from functools import cache, cached_property
from typing import Any, cast, get_args, get_origin, get_type_hints

from bnmodes.agents.agent import Settings
from bnmodes.agents.registry import arm_label, arm_settings, find_agent
from bnmodes.bounds import Count, Fraction, Whole, check_bounds
from bnmodes.changes import dotted
from bnmodes.envs.contract import NewLife
from bnmodes.envs.registry import canonical_name, env_suite, tells_life_losses
from bnmodes.errors import UsageError


class AnotherVersion(UsageError):
    """A stored specification has other fields than there are now."""


@dataclass(frozen=True)
class EvaluationSettings:
    """Separate evaluation: its own environments, one full game in each."""

    every_decisions: Count = 100_000
    """Decisions between evaluations; one more at the end of the run."""
    episodes: Count = 10
    """Full games of one evaluation, each in its own environment (number)."""
    epsilon: Fraction = 0.001
    """Share of random actions in an evaluation."""
    test_bins: Count = 30
    """Equal parts of the run over which finished games of greedy test environments are averaged."""

    def grid(self, total_decisions: int) -> list[int]:
        """When to evaluate: every so many decisions, and at the last one."""
        grid = list(range(self.every_decisions, total_decisions + 1, self.every_decisions))
        return grid if grid and grid[-1] == total_decisions else [*grid, total_decisions]

    def test_grid(self, total_decisions: int) -> list[int]:
        """Where each part of the run ends over which test games are averaged."""
        return [(part + 1) * total_decisions // self.test_bins for part in range(self.test_bins)]


@dataclass(frozen=True)
class DiagnosticsSettings:
    """What is measured inside the networks while they learn; it changes nothing in training."""

    points: Whole = 20
    """Measurements, at equal distances and at the last decision; 0: none."""


@dataclass(frozen=True)
class RunSpec:
    """One training run."""

    agent: str
    env: str
    arm: str
    """A label; what it stands for is in `settings`. "-changed" ends one that was changed."""
    seed: Whole
    total_decisions: Count
    record_every_decisions: Count
    evaluation: EvaluationSettings
    settings: Settings
    diagnostics: DiagnosticsSettings = DiagnosticsSettings()
    fire_on_life_loss: bool = False
    """Atari: press FIRE at the first decision after a life loss, whatever the agent chose."""
    noops_on_life_loss: bool = False
    """Atari: before that FIRE, wait up to 29 frames (in whole decisions), as EnvPool does."""
    agent_revision: Count = 1
    """The agent's `AgentKind.revision` when the run was begun."""

    def validate(self) -> None:
        check_bounds(self.evaluation, "evaluation.")
        check_bounds(self.diagnostics, "diagnostics.")
        self.settings.validate(self.evaluation.episodes)
        check_bounds(self)
        if self.fire_on_life_loss and not tells_life_losses(self.env):
            raise UsageError(
                f"fire_on_life_loss is for Atari games without -sticky, but env is {self.env}."
            )
        if self.noops_on_life_loss and not self.fire_on_life_loss:
            raise UsageError("noops_on_life_loss are before FIRE: add fire_on_life_loss.")

    @property
    def new_life(self) -> NewLife:
        return NewLife(fire=self.fire_on_life_loss, noops=self.noops_on_life_loss)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @cached_property
    def content_hash(self) -> str:
        """Of what differs from the defaults, so that a setting added later renames no run. A run
        from before a default changed may therefore have the name of one from after it: whoever
        finds a run asks `RunFolder.difference`."""
        canonical = json.dumps(_not_default(self), sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def make_spec(
    agent: str,
    env: str,
    arm: str | None = None,
    *,
    seed: int = 0,
    changes: Mapping[str, Any] | None = None,
    total_decisions: int | None = None,
    record_every_decisions: int | None = None,
    evaluation: EvaluationSettings | None = None,
    diagnostics: DiagnosticsSettings | None = None,
    fire_on_life_loss: bool | None = None,
    noops_on_life_loss: bool = False,
) -> RunSpec:
    """The run of an agent's arm on a game; what is not said is the agent's default on that suite of
    games. `changes` are settings by dotted names."""
    kind, suite = find_agent(agent), env_suite(env)
    arm = arm or kind.default_arm
    settings = arm_settings(agent, arm, suite, changes)
    defaults = kind.suite_defaults(suite)
    if total_decisions is None:
        total_decisions = defaults.total_decisions
    if record_every_decisions is None:
        record_every_decisions = defaults.record_every_decisions
    return RunSpec(
        agent=agent,
        env=canonical_name(env),
        arm=arm_label(agent, arm, suite, settings),
        seed=seed,
        total_decisions=total_decisions,
        record_every_decisions=record_every_decisions,
        evaluation=evaluation
        or EvaluationSettings(
            defaults.evaluate_every_decisions, epsilon=defaults.evaluation_epsilon
        ),
        settings=settings,
        diagnostics=diagnostics or DiagnosticsSettings(),
        fire_on_life_loss=(
            tells_life_losses(env) if fire_on_life_loss is None else fire_on_life_loss
        ),
        noops_on_life_loss=noops_on_life_loss,
        agent_revision=kind.revision,
    )


def _not_default(record: Any) -> dict[str, Any]:
    named = {}
    for f in fields(record):
        value = getattr(record, f.name)
        default = f.default_factory() if f.default_factory is not MISSING else f.default
        if value != default:
            named[f.name] = _not_default(value) if is_dataclass(value) else value
    return named


def spec_from_json(data: dict[str, Any]) -> RunSpec:
    """The run that `to_json` described; an agent of a user's own must have been named before."""
    return _build(RunSpec, data, settings=find_agent(data["agent"]).settings)


def first_difference(stored: RunSpec, spec: RunSpec) -> str:
    """The first setting in which the stored run is not this one, in words; empty: it is."""
    if stored == spec:
        return ""
    ours, theirs = dotted(spec.to_json()), dotted(stored.to_json())
    differing = (name for name in ours | theirs if ours.get(name) != theirs.get(name))
    name = next(differing, None)
    if name is None:  # such as no value beside an empty one
        return "an empty setting differs"
    return f"{name} is {theirs.get(name)} there, {ours.get(name)} here"


def _build(cls: type, data: dict[str, Any], **known_types: type) -> Any:
    """A (nested, frozen) dataclass from what `asdict` made of it."""
    hints = _hints(cls) | known_types
    unknown = data.keys() - hints.keys()
    missing = {f.name for f in fields(cls) if _is_required(f)} - data.keys()
    if unknown or missing:
        raise AnotherVersion(
            f"the stored {cls.__name__} has unknown fields {sorted(unknown)} and lacks "
            f"{sorted(missing)}: it was written by another version of bnmodes."
        )
    return cls(**{name: _value(hints[name], value) for name, value in data.items()})


_hints = cache(get_type_hints)  # a report reads the specifications of thousands of runs


def _is_required(f: Field) -> bool:
    """A setting with a default may be younger than the file."""
    return f.default is MISSING and f.default_factory is MISSING


def _value(hint: Any, value: Any) -> Any:
    """The value of a field from JSON, which knows neither tuples nor dataclasses."""
    kinds = [hint, *get_args(hint)]
    if isinstance(value, dict) and (nested := next(filter(is_dataclass, kinds), None)):
        return _build(cast(type, nested), value)
    if isinstance(value, list) and any(get_origin(kind) is tuple for kind in kinds):
        return tuple(value)
    return value
