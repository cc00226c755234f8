"""The contracts of an agent and of its settings, and the record that makes an agent known.

An agent is one file: a dataclass of settings, a table of arms, a class that keeps the contract
`Agent`, and one `AgentKind` that names the three. See examples/dqn.py for a whole one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Int64

from bnmodes import protocol
from bnmodes.envs.contract import EnvSpec, Observations, Step
from bnmodes.protocol import AgentCapabilities

if TYPE_CHECKING:  # PyTorch takes seconds, and the names of agents and studies need none of it
    import torch
    from torch import nn

    from bnmodes.diagnostics import RoleForward, Row, Transitions


@runtime_checkable
class Agent(Protocol):
    """What the training loop asks of an agent. It knows nothing of files, studies or commands."""

    networks: "Mapping[str, nn.Module]"
    decisions: int
    """Decisions observed so far in the training environments; `observe` counts them."""

    def begin(self, obs: Observations) -> None:
        """Every environment starts a new game, with these first observations."""

    def act(self, obs: Observations) -> Int64[np.ndarray, " envs"]:
        """Actions while training, by the act role, with exploration."""

    def observe(self, actions: Int64[np.ndarray, " envs"], step: Step) -> None:
        """Take in what the actions led to."""

    def learn(self) -> None:
        """Make all updates that are due now."""

    def greedy(self, obs: Observations) -> Int64[np.ndarray, " envs"]:
        """Actions by the evaluate role, without exploration; changes nothing."""

    def take_metrics(self) -> dict[str, float]:
        """Means over the updates since the last call, and the current learning rate, ε, …"""

    def diagnose(self, obs: Observations, rng: np.random.Generator) -> "Row":
        """Measurements of the networks (see `bnmodes.diagnostics`); changes nothing.

        `obs` is what is acted on next; rows are drawn with `rng`, never with the agent's streams.
        Empty before the first update, and for an agent that measures nothing.
        """

    def state(self) -> dict[str, Any]:
        """All that the next decisions depend on; the networks under "networks"."""

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from `state()`."""

    def load_networks(self, networks: dict[str, Any]) -> None:
        """Only `state()["networks"]`: enough to play, not to train."""


@runtime_checkable
class DeclaresRoles(Protocol):
    """The optional part of the contract: an agent that shows the forward of each of its roles.

    `bnmodes audit` and the agent's own `diagnose` build on it.
    """

    networks: "Mapping[str, nn.Module]"

    def role_forwards(
        self, transitions: "Transitions", rng: "torch.Generator"
    ) -> "Mapping[protocol.Role, RoleForward]":
        """By role of the protocol, the forward that the agent itself runs, on a batch that is made
        of these transitions as the role's real batches are.

        To ask changes nothing; `RoleForward.run` may update running statistics, if the role does.
        Noise that a batch depends on is drawn with `rng`.
        """


@runtime_checkable
class Settings(Protocol):
    """What the loop, the command line, the estimate and the report ask of an agent's settings.

    They are a frozen dataclass with a docstring for each field; `agents.settings` has base classes
    with all of this.
    """

    protocol: protocol.Protocol
    """Parameters, batch, statistics and updates of each forward."""
    num_envs: int
    """Environments that are learnt from."""

    @property
    def env_rows(self) -> int:
        """Environments that act together: those learnt from, and greedy test ones after them."""

    @property
    def updates_per_decision(self) -> float:
        """Optimizer steps for each decision (UTD)."""

    def capabilities(self, evaluation_rows: int) -> AgentCapabilities:
        """The batch of each role, and which networks there are."""

    def memory_bytes(self, env: EnvSpec) -> int:
        """Size of the stored transitions when the memory of them is full."""

    def for_timing(self) -> "Settings":
        """The same work for each decision, but from the first decisions on."""

    def fixed(self) -> Mapping[str, str]:
        """Hyperparameters that are no settings, by their names in the report's table: optimizer,
        initialisation, activation, …"""

    def notes(self) -> list[str]:
        """Sentences under the protocol's table that say what it cannot."""

    def warnings(self, total_decisions: int) -> list[str]:
        """What is allowed, but probably not meant."""

    def validate(self, evaluation_rows: int) -> None:
        """Raise UsageError for settings that cannot be run."""


@dataclass(frozen=True)
class SuiteDefaults:
    """What an agent is given on the games of one suite, where the user says nothing else."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the agent's settings that differ from their defaults."""
    total_decisions: int = 100_000
    record_every_decisions: int = 1_000
    evaluate_every_decisions: int = 10_000
    evaluation_epsilon: float = 0.001
    all_cores: bool = False
    """Whether one training run by itself uses all cores; small networks are faster with one."""


UNTUNED = "untuned"
"""Key of the defaults for suites that have none of their own: nobody tuned the agent there."""


@dataclass(frozen=True)
class AgentKind:
    """Everything that the package must know of an agent."""

    name: str
    """As the command line says it, e.g. "c51"."""
    summary: str
    """One line for `--help`."""
    settings: type
    """A frozen dataclass that keeps the contract `Settings`, with a default for each field."""
    arms: Mapping[str, Mapping[str, Any]]
    """By the arm's name, the fields of the settings that make it this arm."""
    default_arm: str
    build: Callable[..., Any]
    """(settings, env spec, seed, total decisions, execution) → a new `Agent`."""
    suites: Mapping[str, SuiteDefaults] = field(default_factory=dict)
    """Defaults by suite of games; the key `untuned` serves all others."""
    revision: int = 1
    """Raised whenever the same settings begin to give other results: a part of each run's
    specification and hash, so that runs from before and after are never taken for one."""

    def suite_defaults(self, suite: str) -> SuiteDefaults:
        return self.suites.get(suite) or self.suites.get(UNTUNED) or SuiteDefaults()

    def is_tuned_for(self, suite: str) -> bool:
        return suite in self.suites

    @property
    def arm_fields(self) -> list[str]:
        """The fields that tell arms apart."""
        return list(dict.fromkeys(name for fields in self.arms.values() for name in fields))
