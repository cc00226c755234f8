"""A run as data: everything that its result depends on, and the hash that names it."""

import hashlib
import json
from dataclasses import MISSING, Field, asdict, dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, get_type_hints

from bnmodes.agents.catalogue import AGENTS, AgentName, Config
from bnmodes.errors import UsageError


@dataclass(frozen=True)
class EvaluationConfig:
    """Separate evaluation: its own environments, one full game in each."""

    every_decisions: int = 100_000
    """Decisions between evaluations; one more at the end of the run."""
    episodes: int = 10
    """Full games of one evaluation, each in its own environment (number)."""
    epsilon: float = 0.001
    """Share of random actions in an evaluation."""
    test_bins: int = 30
    """Equal parts of the run over which finished games of greedy test environments are averaged."""

    def grid(self, total_decisions: int) -> list[int]:
        """When to evaluate: every so many decisions, and at the last one."""
        grid = list(range(self.every_decisions, total_decisions + 1, self.every_decisions))
        return grid if grid and grid[-1] == total_decisions else [*grid, total_decisions]

    def test_grid(self, total_decisions: int) -> list[int]:
        """Where each part of the test games ends."""
        return [(part + 1) * total_decisions // self.test_bins for part in range(self.test_bins)]


@dataclass(frozen=True)
class DiagnosticsConfig:
    """What is measured inside the networks while they learn; it changes nothing in training."""

    points: int = 20
    """Measurements, at equal distances and at the last decision; 0: none."""


@dataclass(frozen=True)
class RunSpec:
    agent: AgentName
    env: str
    arm: str
    """A label; what it stands for is in `config`. "-changed" ends one that options overrode."""
    seed: int
    total_decisions: int
    record_every_decisions: int
    evaluation: EvaluationConfig
    config: Config
    diagnostics: DiagnosticsConfig = DiagnosticsConfig()

    def validate(self) -> None:
        for name, value, low in (
            ("total_decisions", self.total_decisions, 1),
            ("record_every_decisions", self.record_every_decisions, 1),
            ("seed", self.seed, 0),
            ("evaluation.every_decisions", self.evaluation.every_decisions, 1),
            ("evaluation.episodes", self.evaluation.episodes, 1),
            ("evaluation.test_bins", self.evaluation.test_bins, 1),
            ("diagnostics.points", self.diagnostics.points, 0),
        ):
            if value < low:
                raise UsageError(f"{name} is {value}, but must be at least {low}.")
        if not 0 <= self.evaluation.epsilon <= 1:
            raise UsageError(
                f"evaluation.epsilon is {self.evaluation.epsilon}, but must be between 0 and 1."
            )
        self.config.validate(self.evaluation.episodes)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @cached_property
    def content_hash(self) -> str:
        """Of what differs from the defaults, so that a setting added later renames no run."""
        canonical = json.dumps(_not_default(self), sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def _not_default(record: Any) -> dict[str, Any]:
    named = {}
    for f in fields(record):
        value = getattr(record, f.name)
        default = f.default_factory() if f.default_factory is not MISSING else f.default
        if value != default:
            named[f.name] = _not_default(value) if is_dataclass(value) else value
    return named


def spec_from_json(data: dict[str, Any]) -> RunSpec:
    return _build(RunSpec, data, config=AGENTS[data["agent"]].config)


def _build(cls: type, data: dict[str, Any], **known_types: type) -> Any:
    """A (nested, frozen) dataclass from what `asdict` made of it."""
    hints = get_type_hints(cls) | known_types
    unknown = data.keys() - hints.keys()
    missing = {f.name for f in fields(cls) if _is_required(f)} - data.keys()
    if unknown or missing:
        raise UsageError(
            f"the stored {cls.__name__} has unknown fields {sorted(unknown)} and lacks "
            f"{sorted(missing)}: it was written by another version of bnmodes."
        )
    return cls(**{name: _value(hints[name], value) for name, value in data.items()})


def _is_required(f: Field) -> bool:
    """A setting with a default may be younger than the file."""
    return f.default is MISSING and f.default_factory is MISSING


def _value(hint: Any, value: Any) -> Any:
    if isinstance(value, dict):
        nested = hint if is_dataclass(hint) else next(filter(is_dataclass, hint.__args__))
        return _build(nested, value)
    return value
