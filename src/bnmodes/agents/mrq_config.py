"""The settings of MR.Q."""

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from bnmodes.agents.actor_critic_config import ActorCriticConfig
from bnmodes.agents.agent import require_above_zero, require_between
from bnmodes.envs.contract import EnvSpec
from bnmodes.errors import UsageError
from bnmodes.protocol import Protocol, preset


@dataclass(frozen=True)
class MRQConfig(ActorCriticConfig):
    """Every setting of the agent. The defaults are the study's for Atari."""

    protocol: Protocol = field(default_factory=lambda: preset("mrq/none"))
    """Parameters, rows, statistics and writes of each forward."""
    torso: Literal["mrq", "minatar", "dense"] = "mrq"
    """Hidden layers of the encoder: four convolutions and dense 512, or one and dense 128."""
    hidden_units: int = 512
    """Units of every other hidden layer, and of the embedding of state and action (number)."""
    action_units: int = 256
    """Units of an action's embedding (number)."""
    target_noise_clip: float = 0.15
    """Largest size of the noise on a relaxed action that is bootstrapped from."""
    return_steps: int = 3
    """Rewards in a value target before it bootstraps (decisions)."""
    unroll_steps: int = 5
    """Horizon of the encoder's loss (decisions)."""
    target_period_updates: int = 250
    """Updates between hard copies to the targets, and encoder updates done then (number)."""
    encoder_learning_rate: float = 1e-4
    """AdamW's step size for encoder, embedding and model."""
    value_learning_rate: float = 3e-4
    """AdamW's step size for the critics."""
    policy_learning_rate: float = 3e-4
    """AdamW's step size for the policy."""
    weight_decay: float = 1e-4
    """AdamW's weight decay, for all of them."""
    value_gradient_clip: float = 20.0
    """Largest global norm of the critics' gradient."""
    dynamics_weight: float = 1.0
    """Of the next state's embedding in the encoder's loss."""
    reward_weight: float = 0.1
    """Of the reward in the encoder's loss."""
    terminal_weight: float = 0.1
    """Of the end of a game in the encoder's loss, once one was seen."""
    logit_penalty: float = 1e-5
    """Of the mean squared logit in the policy's loss."""
    shift_pixels: int = 4
    """Largest random shift of the pictures that are learnt from (pixels)."""

    def memory_bytes(self, env: EnvSpec) -> int:
        return super().memory_bytes(env) + 4 * self.replay_capacity

    def rehearsal(self) -> "MRQConfig":
        """With one encoder update at each update, instead of all of them at once."""
        return replace(super().rehearsal(), target_period_updates=1)

    def notes(self) -> list[str]:
        """What the protocol's table cannot say."""
        period = self.target_period_updates
        return [
            f"Every {period} updates the targets of encoder, critics and policy get the online "
            f"parameters, and then the encoder {period} updates of its own.",
            f"The encoder's loss unrolls {self.unroll_steps} steps; its forwards are of single "
            "rows, as all here.",
            "Values are in units of the replay's mean |reward|, measured at each copy.",
        ]

    def validate(self, evaluation_rows: int) -> None:
        super().validate(evaluation_rows)
        whole = ("hidden_units", "action_units", "return_steps", "unroll_steps")
        weights = ("weight_decay", "dynamics_weight", "reward_weight", "terminal_weight")
        require_between(
            self,
            **dict.fromkeys(whole, (1, math.inf)),
            **dict.fromkeys(weights, (0, math.inf)),
            target_period_updates=(1, math.inf),
            logit_penalty=(0, math.inf),
            shift_pixels=(0, math.inf),
        )
        rates = ("encoder_learning_rate", "value_learning_rate", "policy_learning_rate")
        require_above_zero(self, *rates, "value_gradient_clip")


MRQ_ARMS = ("ln",)


def mrq_config(arm: str, env_family: str) -> MRQConfig:
    """The configuration for a family of games; its LayerNorm is part of it, so there is one arm."""
    if arm not in MRQ_ARMS:
        raise UsageError(f"arm '{arm}' is unknown: choose one of {', '.join(MRQ_ARMS)}.")
    config = MRQConfig()
    if env_family != "atari":
        # Two processor cores want a smaller network and batch; ten pixels leave none to shift.
        config = replace(
            config,
            torso="minatar",
            hidden_units=128,
            action_units=32,
            batch_size=64,
            replay_capacity=100_000,
            learning_starts_decisions=1_000,
            shift_pixels=0,
        )
    return config
