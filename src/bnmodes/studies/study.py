"""A study as data: arms × games × seeds, which expand to run specifications."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from bnmodes import plugins
from bnmodes.agents.agent import Settings
from bnmodes.agents.registry import arm_settings
from bnmodes.envs.registry import canonical_name, env_suite
from bnmodes.errors import UsageError
from bnmodes.nearest import nearest
from bnmodes.runs.spec import EvaluationSettings, RunSpec, make_spec

Diverged = Literal["worst", "left-out", "refused"]
Metric = Literal["evaluation", "test", "released-test"]
RETURNS: dict[Metric, str] = {
    "evaluation": "evaluation/return",
    "test": "test/return",
    "released-test": "test/last_return",
}
"""The recorded numbers that each is made of."""


@dataclass(frozen=True)
class Arm:
    """A named configuration of an agent."""

    name: str
    """Unique in its study, e.g. "BN WN UTD 8"."""
    base: str
    """The agent's arm that it starts from, e.g. "bn-wn"; it decides the colour in figures."""
    agent: str = "c51"
    """One of the package, or of a file beside the study's own, as FILE.py:NAME."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from the base's, by dotted names: {"norm.bn_epsilon": 1e-3}."""
    evaluation_epsilon: float | None = None
    """Share of random actions in this arm's evaluations; None: the study's."""

    def settings(self, game: str) -> Settings:
        return arm_settings(self.agent, self.base, env_suite(game), self.changes)

    @property
    def swept_utd(self) -> float:
        """Updates per decision (UTD) where the study varies them; 0: as the agent has them."""
        return self.changes.get("updates_per_decision", 0.0)


@dataclass(frozen=True)
class Contrast:
    """A comparison that a study was made for: one arm minus another, by their names."""

    arm: str
    other: str
    claim: str = ""
    """What is tested, in a sentence for the report."""


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
        return self.spec.total_decisions * (1 + 3 * self.spec.settings.updates_per_decision)


@dataclass(frozen=True)
class Study:
    """Arms × games × seeds, and how their runs are made and scored."""

    name: str
    question: str
    """What is asked, in a sentence or two for the report."""
    arms: tuple[Arm, ...]
    games: tuple[str, ...]
    seeds: tuple[int, ...]
    total_decisions: int
    """Length of each run."""
    reference: str = ""
    """The arm that percentages, and scores without a human baseline, refer to; the first one."""
    record_every_decisions: int = 0
    """Decisions between two rows of training metrics; 0: a hundredth of a run."""
    evaluation: EvaluationSettings | None = None
    """None: ten evaluations, the last one at the end of a run."""
    metric: Metric | None = None
    """What is scored: separate evaluations, or finished games of greedy test environments (which
    only some agents have), or of these as PQN's release does it: at each decision the last finished
    game of each, 0 before the first. None: evaluations."""
    final_points: int = 1
    """The final score is the mean of so many last points of the grid."""
    contrasts: tuple[Contrast, ...] = ()
    """The comparisons that are tested; none: every other arm against the reference."""
    diverged: Diverged = "worst"
    """What a run counts as whose return is infinite or not a number: the worst return of any arm on
    that game; as missing, with the same game and seed of the other arms; or it is an error."""
    note: str = ""
    """What a reader of the results should know, in a sentence or two for the report."""
    file: str = ""
    """The file that it is in, as the command line named it; empty for the package's own."""
    part_of: "Study | None" = field(default=None, compare=False, repr=False)
    """The study that this is a part of, with fewer arms, games or seeds."""

    def __post_init__(self):
        every = max(1, self.total_decisions // 100)
        tenth = EvaluationSettings(every_decisions=max(1, -(-self.total_decisions // 10)))
        for name, default in (
            ("reference", self.arms[0].name if self.arms else ""),
            ("record_every_decisions", every),
            ("evaluation", tenth),
            ("metric", "evaluation"),
        ):
            object.__setattr__(self, name, getattr(self, name) or default)

    @property
    def source(self) -> str:
        """How the command line names it."""
        return self.file or self.name

    def validate(self) -> None:
        """Refuse a study that cannot be run, with a sentence that says what to mend."""
        for name in ("arms", "games", "seeds"):
            if not isinstance(getattr(self, name), tuple):
                raise UsageError(f"{name} of study {self.name} must be a tuple: write (one,).")
        for kind, names in (
            ("arm", [arm.name for arm in self.arms]),
            ("game", [canonical_name(game) for game in self.games]),
            ("seed", self.seeds),
        ):
            if not names:
                raise UsageError(f"study {self.name} has no {kind}s: give at least one.")
            if twice := [name for name in names if list(names).count(name) > 1]:
                raise UsageError(f"study {self.name} has the {kind} '{twice[0]}' twice.")
        if not re.fullmatch(r"\w[\w.-]*", self.name):
            raise UsageError(
                f"the study's name {self.name!r} is used as a file's name: give it letters, "
                "digits, dots, hyphens and underscores only, and none of the last three first."
            )
        if self.reference not in [arm.name for arm in self.arms]:
            raise UsageError(f"the reference '{self.reference}' is no arm of study {self.name}.")
        for name, value, known in (
            ("metric", self.metric, RETURNS),
            ("diverged", self.diverged, get_args(Diverged)),
        ):
            if value not in known:
                raise UsageError(
                    f"{name} of study {self.name} is {value!r}: choose one of {', '.join(known)}."
                )
        if not 1 <= self.final_points <= len(self.grid):
            raise UsageError(
                f"final_points of study {self.name} is {self.final_points}, but a run has "
                f"{len(self.grid)} points: give a number from 1 to that."
            )
        pairs = [frozenset((contrast.arm, contrast.other)) for contrast in self.contrasts]
        for contrast, pair in zip(self.contrasts, pairs, strict=True):
            if len(pair) < 2 or pairs.count(pair) > 1:
                raise UsageError(
                    f"study {self.name} has the contrast '{contrast.arm}' − '{contrast.other}' "
                    "twice, or of an arm with itself: compare two arms, once."
                )
            for name in (contrast.arm, contrast.other):
                if name not in [arm.name for arm in self.arms]:
                    raise UsageError(
                        f"study {self.name} has a contrast with '{name}', no arm of it."
                    )
        if self.scores_test_envs:
            for arm in self.arms:
                settings = arm.settings(self.games[0])
                if settings.env_rows == settings.num_envs:
                    raise UsageError(
                        f"study {self.name} scores games of test environments, but arm "
                        f"'{arm.name}' has none: use metric='evaluation'."
                    )
        for run in self.runs:
            run.spec.validate()

    def warnings(self) -> list[str]:
        """What is allowed, but probably not meant: each sentence with the arms it is about."""
        about: dict[str, list[str]] = {}
        for run in self.runs:
            for sentence in run.spec.settings.warnings(run.spec.total_decisions):
                arms = about.setdefault(sentence, [])
                if run.arm not in arms:
                    arms.append(run.arm)
        return [f"{', '.join(arms)}: {sentence}" for sentence, arms in about.items()]

    @property
    def whole(self) -> "Study":
        """The study as it was declared, of which this may be a part."""
        return self.part_of or self

    @property
    def comparisons(self) -> int:
        """How many pairs of arms a report tests: those declared, else each arm and the reference,
        at each number of updates per decision."""
        return len(self.contrasts) or len(self.arms) - len({arm.swept_utd for arm in self.arms})

    def part_words(self) -> str:
        """How much of the declared study this is; empty for all of it."""
        counts = [
            f"{len(getattr(self, name))} of {len(getattr(self.whole, name))} {name}"
            for name in ("arms", "games", "seeds")
            if len(getattr(self, name)) < len(getattr(self.whole, name))
        ]
        return f"A part of the study: {', '.join(counts)}." if counts else ""

    def arm(self, name: str) -> Arm:
        return next(arm for arm in self.arms if arm.name == name)

    @property
    def evaluated(self) -> EvaluationSettings:
        """How its runs are evaluated: as declared, or by default."""
        assert self.evaluation is not None  # it was set at the start
        return self.evaluation

    @property
    def returns(self) -> str:
        """The recorded number that scores are made of."""
        return RETURNS[self.metric or "evaluation"]

    @property
    def scores_test_envs(self) -> bool:
        return self.metric != "evaluation"

    @property
    def grid(self) -> list[int]:
        """Decisions at which a run has a score."""
        if self.scores_test_envs:
            return self.evaluated.test_grid(self.total_decisions)
        return self.evaluated.grid(self.total_decisions)

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
        evaluation = self.evaluated
        if arm.evaluation_epsilon is not None:
            evaluation = replace(evaluation, epsilon=arm.evaluation_epsilon)
        return make_spec(
            arm.agent,
            game,
            arm.base,
            seed=seed,
            changes=arm.changes,
            total_decisions=self.total_decisions,
            record_every_decisions=self.record_every_decisions,
            evaluation=evaluation,
        )

    def restricted(
        self,
        arms: Sequence[str] = (),
        games: Sequence[str] = (),
        seeds: Sequence[int | str] = (),
    ) -> "Study":
        """Only these arms, games and seeds; an empty choice keeps all."""
        chosen_arms = _choose("arm", arms, [arm.name for arm in self.arms])
        return replace(
            self,
            arms=tuple(arm for arm in self.arms if arm.name in chosen_arms),
            games=_choose("game", games, self.games),
            seeds=tuple(int(s) for s in _choose("seed", map(str, seeds), map(str, self.seeds))),
            contrasts=tuple(
                each
                for each in self.contrasts
                if each.arm in chosen_arms and each.other in chosen_arms
            ),
            part_of=self.whole,
        )

    def spanned_by(self, runs: Collection[StudyRun]) -> "Study":
        """Only the arms, games and seeds that have one of these runs."""
        return self.restricted(
            arms=sorted({run.arm for run in runs}),
            games=sorted({run.game for run in runs}),
            seeds=sorted({run.seed for run in runs}),
        )

    def from_file(self, file: Path, reference: str) -> "Study":
        """The same study as its file declared it: agents and games of users' own files are looked
        for beside it, and `reference` is how the command line named it."""
        folder = file.parent

        def named(name: str) -> str:
            return plugins.name_here(name, folder) if plugins.is_reference(name) else name

        return replace(
            self,
            arms=tuple(replace(arm, agent=named(arm.agent)) for arm in self.arms),
            games=tuple(named(game) for game in self.games),
            file=reference,
        )


def _choose(kind: str, chosen, declared) -> tuple[str, ...]:
    chosen, declared = tuple(chosen), tuple(declared)
    lowered = {name.lower(): name for name in declared}
    for name in chosen:
        if name.lower() not in lowered:
            near = nearest(name.lower(), lowered)
            hint = f" (did you mean '{lowered[near]}'?)" if near else ""
            raise UsageError(
                f"this study has no {kind} '{name}'{hint}: choose from {'; '.join(declared)}."
            )
    wanted = {name.lower() for name in chosen}
    return tuple(name for name in declared if not wanted or name.lower() in wanted)
