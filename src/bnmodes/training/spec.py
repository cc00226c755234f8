"""A run as data: everything that its result depends on, and the hash that names it."""

import hashlib
import json
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, Literal, get_type_hints

from bnmodes.agents.c51 import C51Config
from bnmodes.agents.pqn import PQNConfig
from bnmodes.errors import UsageError

AgentName = Literal["c51", "pqn"]
CONFIGS = {"c51": C51Config, "pqn": PQNConfig}


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
    config: C51Config | PQNConfig

    def validate(self) -> None:
        for name, value, low in (
            ("total_decisions", self.total_decisions, 1),
            ("record_every_decisions", self.record_every_decisions, 1),
            ("seed", self.seed, 0),
            ("evaluation.every_decisions", self.evaluation.every_decisions, 1),
            ("evaluation.episodes", self.evaluation.episodes, 1),
            ("evaluation.test_bins", self.evaluation.test_bins, 1),
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
        canonical = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]


def spec_from_json(data: dict[str, Any]) -> RunSpec:
    return _build(RunSpec, data, config=CONFIGS[data["agent"]])


def _build(cls: type, data: dict[str, Any], **known_types: type) -> Any:
    """A (nested, frozen) dataclass from what `asdict` made of it."""
    hints = get_type_hints(cls) | known_types
    unknown = data.keys() - hints.keys()
    missing = hints.keys() - data.keys()
    if unknown or missing:
        raise UsageError(
            f"the stored {cls.__name__} has unknown fields {sorted(unknown)} and lacks "
            f"{sorted(missing)}: it was written by another version of bnmodes."
        )
    return cls(**{f.name: _value(hints[f.name], data[f.name]) for f in fields(cls)})


def _value(hint: Any, value: Any) -> Any:
    if isinstance(value, dict):
        nested = hint if is_dataclass(hint) else next(filter(is_dataclass, hint.__args__))
        return _build(nested, value)
    return value
