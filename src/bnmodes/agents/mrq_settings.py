"""MR.Q's settings and protocol."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bnmodes.agents.settings import (
    ActorCriticSettings,
    fixed_choices,
    protocol_without_batchnorm,
)
from bnmodes.bounds import Count, NotNegative, Positive, Whole
from bnmodes.envs.contract import EnvSpec
from bnmodes.networks.torsos import TorsoName
from bnmodes.protocol import AgentCapabilities, Forward, Mode, Population, Protocol, Role


@dataclass(frozen=True)
class MRQSettings(ActorCriticSettings):
    """Every setting of the agent. The defaults are the study's for Atari."""

    protocol: Protocol = field(default_factory=lambda: mrq_protocol())
    """Parameters, batch, statistics and updates of each forward."""
    torso: TorsoName = "mrq"
    """Hidden layers of the encoder, by name; `auto` chooses by the size of an observation."""
    hidden_units: Count = 512
    """Units of every other hidden layer, and of the embedding of state and action (number)."""
    action_units: Count = 256
    """Units of an action's embedding (number)."""
    target_noise_clip: NotNegative = 0.15
    """Clip range of `target_noise`."""
    evaluate_sampled: bool = True
    """Evaluate with a sample of the policy, as the release does, or with its most likely action."""
    return_steps: Count = 3
    """Rewards in a value target before it bootstraps (decisions)."""
    unroll_steps: Count = 5
    """Horizon of the encoder's loss (decisions)."""
    target_period_updates: Count = 250
    """Updates between hard copies to the targets, and encoder updates done then (number)."""
    encoder_learning_rate: Positive = 1e-4
    """AdamW's step size for encoder, embedding and model."""
    value_learning_rate: Positive = 3e-4
    """AdamW's step size for the critics."""
    policy_learning_rate: Positive = 3e-4
    """AdamW's step size for the policy."""
    weight_decay: NotNegative = 1e-4
    """AdamW's weight decay, for all of them."""
    value_gradient_clip: Positive = 20.0
    """Largest global norm of the critics' gradient."""
    dynamics_weight: NotNegative = 1.0
    """Of the next state's embedding in the encoder's loss."""
    reward_weight: NotNegative = 0.1
    """Of the reward in the encoder's loss."""
    terminal_weight: NotNegative = 0.1
    """Of the end of a game in the encoder's loss, once one was seen."""
    logit_penalty: NotNegative = 1e-5
    """Of the mean squared logit in the policy's loss."""
    shift_pixels: Whole = 4
    """Largest random shift of the pictures that are learnt from (pixels)."""

    def memory_bytes(self, env: EnvSpec) -> int:
        return super().memory_bytes(env) + 4 * self.replay_capacity

    def for_timing(self) -> "MRQSettings":
        """With one encoder update at each update, instead of all of them at once."""
        timed: Any = super().for_timing()
        return replace(timed, target_period_updates=1)

    def fixed(self) -> dict[str, str]:
        return fixed_choices("AdamW", "Xavier uniform (gain √2)", "ELU, the policy's ReLU")

    def notes(self) -> list[str]:
        period = self.target_period_updates
        return [
            f"Every {period} updates the targets of encoder, critics and policy get the online "
            f"parameters, and then the encoder {period} updates of its own.",
            "The model forward runs the encoder at the first observation and the embedding "
            f"{self.unroll_steps} times, each fed with its own prediction.",
            "Values are in units of the replay's mean |reward|, measured at each copy.",
        ]

    def capabilities(self, evaluation_rows: int) -> AgentCapabilities:
        offered = super().capabilities(evaluation_rows)
        model: dict[Role, Mapping[Population, int]] = {
            "model": {"replay-obs": self.batch_size},
            "model_target": {"replay-next-obs": self.batch_size * self.unroll_steps},
        }
        return replace(offered, rows={**offered.rows, **model})


def mrq_protocol() -> Protocol:
    """All norms are LayerNorms: no forward uses batch or running statistics."""
    none = Mode(statistics="none")
    return replace(
        protocol_without_batchnorm(),
        model=Forward.of(none, "online", "replay-obs"),
        model_target=Forward.of(none, "target", "replay-next-obs"),
    )
