"""The settings of PQN, and the paper's arms."""

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from bnmodes.agents.agent import (
    require_above_zero,
    require_between,
    require_finite,
)
from bnmodes.envs.contract import EnvSpec
from bnmodes.errors import UsageError
from bnmodes.networks.value import NormConfig
from bnmodes.protocol import Protocol, Setting, alpha, preset


@dataclass(frozen=True)
class PQNConfig:
    """Every setting of the agent. The defaults are the paper's for Atari."""

    protocol: Protocol = field(default_factory=lambda: preset("pqn/none"))
    """Parameters, rows, statistics and writes of each forward."""
    bootstrap_source: Literal["recompute", "acting-cache"] = "recompute"
    """Next values by a bootstrap forward for each step, or the acting values kept from the rollout
    (as released; only the last step, and truncated ones, get a bootstrap forward)."""
    norm: NormConfig = NormConfig()
    """The normalisation before every ReLU."""
    torso: Literal["nature", "minatar", "dense"] = "nature"
    """Hidden layers: three convolutions and dense 512, or one convolution and dense 128."""
    head: Literal["scalar", "hl-gauss"] = "scalar"
    """Regress each action's value, or its Gaussian histogram (cross-entropy)."""
    num_envs: int = 128
    """Environments that are learnt from (number)."""
    test_envs: int = 8
    """Further environments in the acting batch that act greedily and are never learnt from."""
    rollout_steps: int = 32
    """Decisions of each environment between updates."""
    minibatches: int = 32
    """Parts that a rollout is shuffled into for each epoch (number)."""
    epochs: int = 2
    """Passes over a rollout (number)."""
    learning_rate: float = 2.5e-4
    """RAdam's step size."""
    gradient_clip: float = 10.0
    """Largest global norm of a gradient."""
    gamma: float = 0.99
    """Discount of one decision."""
    trace: float = 0.65
    """λ of Q(λ): weight of longer returns."""
    epsilon_start: float = 1.0
    """Share of random actions at the first update."""
    epsilon_end: float = 0.001
    """Share of random actions after the decay."""
    epsilon_decay_fraction: float = 0.1
    """Part of the run over which ε falls linearly (fraction of all updates)."""
    clip_rewards: bool = True
    """Learn from the sign of each reward; reported returns stay raw."""
    bins: int = 51
    """Bins of the HL-Gauss head (number)."""
    v_min: float = -10.0
    """Lower end of the HL-Gauss head (discounted return)."""
    v_max: float = 20.0
    """Upper end of the HL-Gauss head (discounted return)."""

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

    def rehearsal(self) -> "PQNConfig":
        """As many minibatches of the same size for each decision, in rollouts of one step."""
        minibatches = max(1, self.num_envs // self.minibatch_size)
        return replace(self, rollout_steps=1, minibatches=minibatches)

    def setting(self, evaluation_rows: int) -> Setting:
        return Setting(
            rows={
                "predict": {"rollout": self.minibatch_size},
                "bootstrap": {"rollout": self.num_envs},
                "act": {"acting+test": self.env_rows},
                "evaluate": {"evaluation": evaluation_rows},
            },
            has_target=False,
            has_batchnorm=self.norm.kind == "bn",
        )

    def notes(self) -> list[str]:
        """What the protocol's table cannot say."""
        source = (
            "Next values come from a bootstrap forward over the rows of each step."
            if self.bootstrap_source == "recompute"
            else "Next values are the acting forward's, kept from the rollout; only the last step "
            "and truncated ones get a bootstrap forward."
        )
        return [
            f"The acting rows are {self.num_envs} training and {self.test_envs} greedy test games "
            "together; the test games are never learnt from.",
            source,
        ]

    def warnings(self, total_decisions: int) -> list[str]:
        """What is allowed, but probably not meant."""
        per_update = self.num_envs * self.rollout_steps
        if total_decisions >= per_update:
            return []
        return [f"the first update comes after {per_update:,} decisions, after the end of this run"]

    def validate(self, evaluation_rows: int) -> None:
        require_finite(self)
        require_between(
            self,
            num_envs=(1, math.inf),
            test_envs=(0, math.inf),
            rollout_steps=(1, math.inf),
            minibatches=(1, math.inf),
            epochs=(1, math.inf),
            gamma=(0, 1),
            trace=(0, 1),
            epsilon_start=(0, 1),
            epsilon_end=(0, 1),
            epsilon_decay_fraction=(0, 1),
            bins=(2, math.inf),
        )
        require_above_zero(self, "learning_rate", "gradient_clip")
        if self.num_envs * self.rollout_steps % self.minibatches:
            raise UsageError(
                f"a rollout of {self.num_envs} × {self.rollout_steps} transitions does not divide "
                f"into {self.minibatches} minibatches: choose a divisor."
            )
        self.norm.validate()
        if not self.v_min < self.v_max:
            raise UsageError(f"v_min {self.v_min} must be below v_max {self.v_max}.")
        self.protocol.validate(self.setting(evaluation_rows))


PQN_ARMS = ("none", "ln", "bn-running", "bn-bootstrap-only", "bn-act-only", "bn-batch")


def pqn_config(arm: str, env_family: str, online_alpha: float | str = 0.01) -> PQNConfig:
    """The configuration of one of the paper's arms, for a family of games.

    `online_alpha` is the weight with which BatchNorm's loss forward writes the stored moments.
    """
    if arm not in PQN_ARMS:
        raise UsageError(f"arm '{arm}' is unknown: choose one of {', '.join(PQN_ARMS)}.")
    config = PQNConfig()
    if env_family != "atari":
        config = replace(config, torso="minatar", learning_rate=5e-4)
    if not arm.startswith("bn-"):
        return replace(config, norm=NormConfig(kind=arm))
    name = {"bn-running": "pqn/released"}.get(arm, f"pqn/{arm.removeprefix('bn-')}")
    return replace(
        config,
        protocol=preset(name, update=alpha(online_alpha)),
        # As in the authors' code, which stores the biased variance.
        norm=NormConfig(kind="bn", bn_stored_variance="biased"),
    )
