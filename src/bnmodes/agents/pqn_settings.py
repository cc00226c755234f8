"""The settings of PQN."""

from dataclasses import dataclass, field, replace
from typing import Literal

from bnmodes.agents.pqn_arms import pqn_protocol
from bnmodes.agents.settings import KAIMING, AgentSettings, ValueRange, fixed_choices
from bnmodes.bounds import Bins, Count, Fraction, Positive, Whole
from bnmodes.envs.contract import EnvSpec
from bnmodes.errors import UsageError
from bnmodes.learning.targets import HLGauss
from bnmodes.networks.norms import NormSettings
from bnmodes.networks.torsos import TorsoName
from bnmodes.protocol import AgentCapabilities, Protocol


@dataclass(frozen=True)
class PQNSettings(ValueRange, AgentSettings):
    """Every setting of the agent. The defaults are the paper's for Atari."""

    protocol: Protocol = field(default_factory=pqn_protocol)
    """Parameters, batch, statistics and updates of each forward."""
    bootstrap_source: Literal["recompute", "acting-cache"] = "recompute"
    """Next values by a bootstrap forward for each step, or as acting found them (as released)."""
    norm: NormSettings = NormSettings()
    """The normalisation before every ReLU."""
    torso: TorsoName = "nature"
    """Hidden layers of the network, by name; `auto` chooses by the size of an observation."""
    head: Literal["scalar", "hl-gauss"] = "scalar"
    """Regress each action's value, or its Gaussian histogram (cross-entropy)."""
    head_initialisation: Literal["lecun", "kaiming"] = "lecun"
    """Kernel of the head: variance 1/inputs, as released (Flax's default), or 2/inputs."""
    num_envs: Count = 128
    """Environments that are learnt from (number)."""
    test_envs: Whole = 8
    """Further environments in the acting batch that act greedily and are never learnt from."""
    rollout_steps: Count = 32
    """Decisions of each environment between updates."""
    minibatches: Count = 32
    """Parts that a rollout is shuffled into for each epoch (number)."""
    epochs: Count = 2
    """Passes over a rollout (number)."""
    learning_rate: Positive = 2.5e-4
    """RAdam's step size."""
    gradient_clip: Positive = 10.0
    """Largest global norm of a gradient."""
    gamma: Fraction = 0.99
    """Discount of one decision."""
    trace: Fraction = 0.65
    """λ of Q(λ): weight of longer returns."""
    epsilon_start: Fraction = 1.0
    """Share of random actions at the first update."""
    epsilon_end: Fraction = 0.001
    """Share of random actions after the decay."""
    epsilon_decay_fraction: Fraction = 0.1
    """Part of the run over which ε falls linearly (fraction of all updates)."""
    clip_rewards: bool = True
    """Learn from the sign of each reward; reported returns stay raw."""
    truncation_terminates: bool = False
    """Give a truncated episode's last observation no value, as released, instead of its own."""
    bins: Bins = 51
    """Bins of the HL-Gauss head (number)."""
    v_min: float = -10.0
    """Lower end of the HL-Gauss head (discounted return)."""
    v_max: float = 20.0
    """Upper end of the HL-Gauss head (discounted return)."""
    pool_rows: Count = 1_024
    """Rows of a rollout whose statistics a forward with moments `pool` uses (number)."""

    @property
    def env_rows(self) -> int:
        return self.num_envs + self.test_envs

    @property
    def minibatch_size(self) -> int:
        return self.num_envs * self.rollout_steps // self.minibatches

    @property
    def updates_per_decision(self) -> float:
        return self.epochs * self.minibatches / (self.num_envs * self.rollout_steps)

    def memory_bytes(self, env: EnvSpec) -> int:
        """Of the rollout: observations and next observations."""
        return 2 * self.num_envs * self.rollout_steps * env.obs_bytes

    def for_timing(self) -> "PQNSettings":
        """In rollouts of one step, with minibatches of at least the same size."""
        most = max(1, self.num_envs // self.minibatch_size)
        minibatches = next(n for n in range(most, 0, -1) if self.num_envs % n == 0)
        return replace(self, rollout_steps=1, minibatches=minibatches)

    def capabilities(self, evaluation_rows: int) -> AgentCapabilities:
        return AgentCapabilities(
            rows={
                "predict": {"rollout": self.minibatch_size},
                "bootstrap": {"rollout": self.num_envs},
                "act": {"acting+test": self.env_rows},
                "evaluate": {"evaluation": evaluation_rows},
            },
            has_target=False,
            has_batchnorm=self.norm.kind == "bn",
            moments={"bootstrap": {"independent": self.num_envs, "pool": self.pool_rows}},
        )

    def fixed(self) -> dict[str, str]:
        heads = {"lecun": "LeCun normal (gain 1)", "kaiming": "the same"}
        head = f"{KAIMING}, head {heads[self.head_initialisation]}"
        steps = self.epochs * self.minibatches
        found = fixed_choices("RAdam", head) | {
            "transitions per update": f"{self.num_envs * self.rollout_steps:,}",
            "minibatch size": f"{self.minibatch_size:,}",
            "optimizer steps per update": f"{steps:,}",
        }
        if self.head == "hl-gauss":
            found["HL-Gauss σ"] = f"{HLGauss.sigma_widths:g} bins"
        return found

    def notes(self) -> list[str]:
        source = (
            "Next values come from a bootstrap forward over the batch of each step."
            if self.bootstrap_source == "recompute"
            else "Next values are the acting forward's, kept from the rollout; only the last step "
            "and truncated ones get a bootstrap forward."
        )
        return [
            f"The acting batch is {self.num_envs} training and {self.test_envs} greedy test "
            "environments together; the test environments are never learnt from.",
            source,
        ]

    def warnings(self, total_decisions: int) -> list[str]:
        per_update = self.num_envs * self.rollout_steps
        if total_decisions >= per_update:
            return []
        return [f"the first update comes after {per_update:,} decisions, after the end of this run"]

    def validate(self, evaluation_rows: int) -> None:
        if self.minibatches > 0 and self.num_envs * self.rollout_steps % self.minibatches:
            raise UsageError(
                f"a rollout of {self.num_envs} × {self.rollout_steps} transitions does not divide "
                f"into {self.minibatches} minibatches: choose a divisor."
            )
        super().validate(evaluation_rows)
