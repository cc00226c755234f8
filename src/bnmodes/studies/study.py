"""A study as data: arms × games × seeds, which expand to run specifications."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from bnmodes.agents.catalogue import AGENTS, AgentName, Config
from bnmodes.envs.registry import env_family
from bnmodes.errors import UsageError
from bnmodes.runs.spec import EvaluationConfig, RunSpec


@dataclass(frozen=True)
class Arm:
    """A named configuration of an agent."""

    name: str
    """Unique in its study, e.g. "BN WN UTD 8"."""
    base: str
    """The agent's arm that it starts from, e.g. "bn-wn"; it decides the colour in figures."""
    agent: AgentName = "c51"
    weights: Mapping[str, float | str] = field(default_factory=dict)
    """Of stored moments, as the agent's arms take them, e.g. {"online_alpha": "flax:0.99"}."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the agent's configuration."""

    def config(self, family: str) -> Config:
        config = AGENTS[self.agent].arm_config(self.base, family, **self.weights)
        return replace(config, **self.changes)

    @property
    def swept_utd(self) -> float:
        """Updates per decision (UTD) where the study varies them; 0: as the agent has them."""
        return self.changes.get("updates_per_decision", 0.0)


@dataclass(frozen=True)
class StudyRun:
    """One run of a study, and what it is run with."""

    arm: str
    game: str
    seed: int
    spec: RunSpec

    def __str__(self) -> str:
        return f"{self.arm} on {self.game}, seed {self.seed}"

    @property
    def relative_cost(self) -> float:
        """For the order and the time left: an update costs about as much as three decisions."""
        return self.spec.total_decisions * (1 + 3 * self.spec.config.updates_per_decision)


@dataclass(frozen=True)
class Study:
    name: str
    question: str
    """What is asked, in a sentence or two for the report."""
    arms: tuple[Arm, ...]
    games: tuple[str, ...]
    seeds: tuple[int, ...]
    total_decisions: int
    record_every_decisions: int
    evaluation: EvaluationConfig
    reference: str
    """The arm that percentages, and on MinAtar the scores, refer to."""
    metric: Literal["evaluation", "test"] = "evaluation"
    """What is scored: separate evaluations, or finished games of greedy test environments."""
    final_points: int = 1
    """The final score is the mean of so many last points of the grid."""

    def arm(self, name: str) -> Arm:
        return next(arm for arm in self.arms if arm.name == name)

    @property
    def grid(self) -> list[int]:
        """Decisions at which a run has a score."""
        if self.metric == "test":
            return self.evaluation.test_grid(self.total_decisions)
        return self.evaluation.grid(self.total_decisions)

    @property
    def is_atari(self) -> bool:
        return all(env_family(game) == "atari" for game in self.games)

    @cached_property
    def runs(self) -> tuple[StudyRun, ...]:
        """Every declared run. Studies that declare the same specification share the run."""
        return tuple(
            StudyRun(arm.name, game, seed, self._spec(arm, game, seed))
            for arm in self.arms
            for game in self.games
            for seed in self.seeds
        )

    def _spec(self, arm: Arm, game: str, seed: int) -> RunSpec:
        return RunSpec(
            agent=arm.agent,
            env=game,
            arm=arm.base,
            seed=seed,
            total_decisions=self.total_decisions,
            record_every_decisions=self.record_every_decisions,
            evaluation=self.evaluation,
            config=arm.config(env_family(game)),
        )

    def restricted(
        self,
        arms: Sequence[str] = (),
        games: Sequence[str] = (),
        seeds: Sequence[int] = (),
    ) -> "Study":
        """Only these arms, games and seeds; an empty choice keeps all."""
        chosen_arms = _choose("arm", arms, [arm.name for arm in self.arms])
        return replace(
            self,
            arms=tuple(arm for arm in self.arms if arm.name in chosen_arms),
            games=_choose("game", games, self.games),
            seeds=tuple(int(s) for s in _choose("seed", map(str, seeds), map(str, self.seeds))),
        )


def _choose(kind: str, chosen, declared) -> tuple[str, ...]:
    chosen, declared = tuple(chosen), tuple(declared)
    lowered = {name.lower(): name for name in declared}
    for name in chosen:
        if name.lower() not in lowered:
            near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.3)
            hint = f" (did you mean '{lowered[near[0]]}'?)" if near else ""
            raise UsageError(
                f"this study has no {kind} '{name}'{hint}: choose from {', '.join(declared)}."
            )
    wanted = {name.lower() for name in chosen}
    return tuple(name for name in declared if not wanted or name.lower() in wanted)
