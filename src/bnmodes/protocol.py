"""What each forward pass of an agent uses: parameters, rows, statistics, and what it writes.

"Uses BatchNorm" is no specification. A `Forward` declares one pass; a `Protocol` declares the
passes of an agent, one per role. Weights are α, PyTorch's update weight: new = (1 − α)·old +
α·batch. Flax's momentum is 1 − α; `alpha("flax:0.99")` reads it, and `explain` prints it too.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, get_args

from bnmodes.errors import UsageError

Params = Literal["online", "target"]
Statistics = Literal["batch", "running", "none"]
Population = Literal[
    "replay-obs",
    "replay-next-obs",
    "joined",
    "acting",
    "acting+replay",
    "acting+test",
    "rollout",
    "evaluation",
    "fresh-rollout",
]
Moments = Literal["own", "independent", "pool", "partner"]
Role = Literal[
    "predict",
    "bootstrap",
    "act",
    "evaluate",
    "improve",
    "improve_critic",
    "bootstrap_actor",
    "model",
    "model_target",
    "calibrate",
    "calibrate_evaluate",
]


def alpha(text: str | float) -> float:
    """An update weight from a number, or from Flax's convention: `flax:0.99` is 0.01."""
    written = str(text).strip()
    flax, number = written.startswith("flax:"), written.removeprefix("flax:")
    try:
        # Rounded, because 1 - 0.99 is not the float 0.01.
        weight = round(1 - float(number), 12) if flax else float(number)
    except ValueError:
        raise UsageError(
            f"'{text}' is no update weight: give α such as 0.01, or Flax momentum as flax:0.99."
        ) from None
    return weight


def require_weight(weight: float, name: str) -> None:
    if not 0 < weight <= 1:
        raise UsageError(
            f"{name} weight {weight:g} is outside (0, 1]: give α such as 0.01, or leave it out to "
            "write nothing."
        )


@dataclass(frozen=True, kw_only=True)
class Mode:
    """Which statistics a BatchNorm forward uses and updates. Invalid combinations raise."""

    statistics: Statistics
    """Mean and variance used: of this very batch, the running ones, or none (no BatchNorm)."""
    track: float | None = None
    """Weight α of a discarded pass that first updates the running statistics; none: no pass."""
    update: float | None = None
    """Weight α of this batch's statistics in the running ones; none: they are not updated."""

    def __post_init__(self):
        if self.statistics not in get_args(Statistics):
            raise UsageError(
                f"statistics '{self.statistics}' are unknown: choose batch, running or none."
            )
        for name, weight in (("track", self.track), ("update", self.update)):
            if weight is not None:
                require_weight(weight, name)
        if self.track is not None and self.statistics != "running":
            raise UsageError(
                f"tracking updates the running statistics before they are read, but statistics "
                f"'{self.statistics}' do not read them: use running statistics, or drop track."
            )
        if self.update is not None and self.statistics != "batch":
            raise UsageError(
                f"update stores the statistics that a batch forward has computed, but statistics "
                f"'{self.statistics}' compute none: use batch statistics, or track to update first."
            )

    @property
    def writes(self) -> bool:
        return self.track is not None or self.update is not None


BATCH = Mode(statistics="batch")
RUNNING = Mode(statistics="running")


@dataclass(frozen=True, kw_only=True)
class Forward(Mode):
    """A mode, with whose parameters it runs and which rows it gets."""

    params: Params
    """`online` (trained) or `target` (copied) parameters and running statistics."""
    population: Population
    """The rows that are in the batch together."""
    moments: Moments = "own"
    """Rows of batch statistics: own, independent (another batch), pool, partner (predict's)."""

    def __post_init__(self):
        super().__post_init__()
        if self.moments != "own" and (self.statistics != "batch" or self.writes):
            raise UsageError(
                f"moments '{self.moments}' are batch statistics of other rows, which are never "
                "stored: use batch statistics without an update, or moments own."
            )
        if self.moments != "own" and self.population in ("joined", "acting+replay"):
            raise UsageError(
                f"population '{self.population}' brings further rows for the statistics, and so do "
                f"moments '{self.moments}': use moments own, or another population."
            )

    @classmethod
    def of(
        cls, mode: Mode, params: Params, population: Population, moments: Moments = "own"
    ) -> "Forward":
        """A mode, run with these parameters on these rows, with batch statistics of `moments`."""
        return cls(**asdict(mode), params=params, population=population, moments=moments)


@dataclass(frozen=True)
class AgentCapabilities:
    """What an agent offers its forwards; a protocol is validated against it."""

    rows: Mapping[Role, Mapping[Population, int]]
    """For each role of the agent: the populations that it can be given, and their batch size."""
    has_target: bool
    has_batchnorm: bool
    moments: Mapping[Role, Mapping[Moments, int]] = field(default_factory=dict)
    """For each role that may take batch statistics from other rows: from which, and how many."""


@dataclass(frozen=True)
class Protocol:
    """One forward per role."""

    predict: Forward
    """The forward that gets a gradient."""
    bootstrap: Forward
    """The forward that makes the learning target."""
    act: Forward
    """The forward that picks actions while training."""
    evaluate: Forward
    """The forward that picks actions in a separate evaluation."""
    improve: Forward | None = None
    """The policy's forward in its own loss (actor-critics only, as the next two)."""
    improve_critic: Forward | None = None
    """The critic's forward in the policy's loss, and of the features that the policy reads."""
    bootstrap_actor: Forward | None = None
    """The policy's forward that picks the next action of the learning target."""
    model: Forward | None = None
    """The forward that predicts the next states' features (agents that learn a model only)."""
    model_target: Forward | None = None
    """The forward that makes the features which the model is to predict."""
    calibrate: Forward | None = None
    """A forward before the first bootstrap that only sets running statistics."""
    calibrate_evaluate: Forward | None = None
    """A forward after training (`bnmodes calibrate`) that sets what evaluate reads as running."""

    def roles(self) -> dict[Role, Forward]:
        declared = {role: getattr(self, role) for role in get_args(Role)}
        return {role: forward for role, forward in declared.items() if forward is not None}

    def forward(self, role: Role) -> Forward:
        """Of a role that the agent has."""
        declared = getattr(self, role)
        if declared is None:
            raise ValueError(f"this protocol has no role '{role}'")
        return declared

    def validate(self, offered: AgentCapabilities) -> None:
        """Refuse what cannot mean anything for an agent, with a sentence that says what to do."""
        roles = self.roles()
        if missing := offered.rows.keys() - roles.keys():
            raise UsageError(f"this agent has a role '{min(missing)}': declare its forward.")
        if self.predict.params != "online":
            raise UsageError("predict gets the gradient, so its params must be online.")
        if self.improve and self.improve.params != "online":
            raise UsageError("improve gets the policy's gradient, so its params must be online.")
        for role, forward in roles.items():
            self._validate_role(role, forward, offered)
        self._validate_running_statistics_are_updated()
        if self.evaluate.writes:
            raise UsageError(
                "evaluate would change the agent that it measures: drop its track and update."
            )

    @staticmethod
    def _validate_role(role: Role, forward: Forward, offered: AgentCapabilities) -> None:
        if role not in offered.rows:
            raise UsageError(f"this agent has no role '{role}': leave it out.")
        if forward.population not in offered.rows[role]:
            raise UsageError(
                f"{role} cannot be given the population '{forward.population}': "
                f"this agent offers {', '.join(offered.rows[role])}."
            )
        if forward.params == "target" and not offered.has_target:
            raise UsageError(f"{role} asks for target params, but this agent has none: use online.")
        if (forward.statistics == "none") == offered.has_batchnorm:
            network = "has BatchNorm" if offered.has_batchnorm else "has no BatchNorm"
            choice = "batch or running" if offered.has_batchnorm else "none"
            raise UsageError(
                f"{role} declares statistics '{forward.statistics}', but the network {network}: "
                f"use {choice}."
            )
        sources = offered.moments.get(role, {})
        if forward.moments != "own" and forward.moments not in sources:
            possible = ", ".join(["own", *sources])
            raise UsageError(
                f"{role} cannot take its statistics from '{forward.moments}': this agent offers "
                f"{possible}."
            )
        rows = offered.rows[role][forward.population]
        if forward.moments != "own":
            rows = sources[forward.moments]
        if forward.statistics == "batch" and rows < 2:
            raise UsageError(
                f"{role} asks for batch statistics, but '{forward.population}' has one row, whose "
                "statistics are undefined: use running statistics, or give it more rows."
            )
        if forward.track is not None and rows < 2:
            raise UsageError(
                f"{role} tracks the statistics of '{forward.population}', which has one row: "
                "drop track, or give it more rows."
            )

    def _validate_running_statistics_are_updated(self) -> None:
        """A copy gives the online running statistics to the target: online updates serve both."""
        forwards = self.roles()
        # The policy's own, one evaluation's, and those of a target that the next copy replaces.
        not_for_all = ("improve", "calibrate_evaluate", "calibrate")
        writers = [forward for role, forward in forwards.items() if role not in not_for_all]
        for role, reader in forwards.items():
            if role == "improve" or (role == "evaluate" and self.calibrate_evaluate):
                continue
            if reader.statistics == "running" and not any(
                writer.writes and writer.params in (reader.params, "online") for writer in writers
            ):
                raise UsageError(
                    f"{role} reads running statistics of the {reader.params} network that no "
                    "forward ever updates: give predict an update weight."
                )
        if self.improve is None or self.improve.writes:
            return
        policy = (self.improve, self.act, self.evaluate, self.bootstrap_actor)
        if any(reader and reader.statistics == "running" for reader in policy):
            raise UsageError(
                "the policy's running statistics are read, but only improve can update them: give "
                "improve an update weight."
            )


def _moment_rows(role: Role, forward: Forward, offered: AgentCapabilities) -> str:
    if forward.moments == "own":
        return "these rows"
    if forward.moments == "partner":
        return "predict's rows"
    return f"{offered.moments[role][forward.moments]:,} other rows"


def _weight(weight: float | None) -> str:
    return "nothing" if weight is None else f"α {weight:g} (Flax {1 - weight:g})"


def explain(protocol: Protocol, offered: AgentCapabilities) -> str:
    """The table for people: role × (parameters, rows, statistics, writes)."""
    header = ("role", "parameters", "rows", "statistics", "writes")
    table = [header]
    for role, forward in protocol.roles().items():
        statistics = {
            "batch": f"batch: statistics of {_moment_rows(role, forward, offered)}",
            "running": "running statistics",
            "none": "none: each row alone",
        }[forward.statistics]
        if role == "evaluate" and protocol.calibrate_evaluate:
            statistics = "calibrated: those of calibrate_evaluate"
        if forward.track is not None:
            statistics = "tracked: running, after a discarded pass"
        written = forward.update if forward.track is None else forward.track
        rows = offered.rows[role][forward.population]
        table.append(
            (role, forward.params, f"{rows} × {forward.population}", statistics, _weight(written))
        )
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    lines = [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
    return "\n".join([lines[0], "  ".join("─" * w for w in widths), *lines[1:]])


def explain_json(protocol: Protocol, offered: AgentCapabilities) -> str:
    """The same table for programs."""
    return json.dumps(as_table(protocol, offered), indent=2, ensure_ascii=False)


def as_table(protocol: Protocol, offered: AgentCapabilities) -> dict[Role, dict]:
    """Each role's declaration, its rows, and both conventions of its weights."""
    return {
        role: asdict(forward)
        | {
            "rows": offered.rows[role][forward.population],
            "track_flax_momentum": _flax(forward.track),
            "update_flax_momentum": _flax(forward.update),
        }
        for role, forward in protocol.roles().items()
    }


def _flax(weight: float | None) -> float | None:
    return None if weight is None else round(1 - weight, 12)
