"""The settings of TD3."""

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from bnmodes.agents.actor_critic_config import ActorCriticConfig
from bnmodes.agents.agent import require_above_zero, require_between
from bnmodes.errors import UsageError
from bnmodes.protocol import Protocol, preset


@dataclass(frozen=True)
class TD3Config(ActorCriticConfig):
    """Every setting of the agent. The defaults are the study's for Atari."""

    protocol: Protocol = field(default_factory=lambda: preset("td3/none"))
    """Parameters, rows, statistics and writes of each forward."""
    torso: Literal["nature", "minatar", "dense"] = "nature"
    """Hidden layers of the encoder: three convolutions and dense 512, or one and dense 128."""
    hidden_units: int = 512
    """Units in each of the two hidden layers of the policy and of each critic (number)."""
    learning_rate: float = 3e-4
    """Adam's step size, for critics and policy."""
    target_weight: float = 0.005
    """Share of the online parameters in the target's, at each policy update."""
    policy_delay: int = 2
    """Critic updates for each update of policy and targets (number)."""
    reward_scale_period_updates: int = 250
    """Updates between two measurements of the mean |reward| that rewards are divided by."""

    def notes(self) -> list[str]:
        """What the protocol's table cannot say."""
        return [
            f"The targets of encoder, critics and policy move by {self.target_weight:g} towards "
            f"the online ones at every {self.policy_delay} updates.",
            "Rewards are divided by the replay's mean |reward|, measured every "
            f"{self.reward_scale_period_updates} updates.",
        ]

    def validate(self, evaluation_rows: int) -> None:
        super().validate(evaluation_rows)
        require_between(
            self,
            hidden_units=(1, math.inf),
            policy_delay=(1, math.inf),
            reward_scale_period_updates=(1, math.inf),
            target_weight=(0, 1),
        )
        require_above_zero(self, "learning_rate")


TD3_ARMS = ("none",)


def td3_config(arm: str, env_family: str) -> TD3Config:
    """The configuration for a family of games; without normalisation there is one arm."""
    if arm not in TD3_ARMS:
        raise UsageError(f"arm '{arm}' is unknown: choose one of {', '.join(TD3_ARMS)}.")
    config = TD3Config()
    if env_family != "atari":
        # Two processor cores want a smaller network and batch.
        config = replace(
            config,
            torso="minatar",
            hidden_units=128,
            batch_size=64,
            replay_capacity=100_000,
            learning_starts_decisions=1_000,
        )
    return config
