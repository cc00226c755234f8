"""The settings of XQC and CrossQ, and their arms."""

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from bnmodes.agents.actor_critic_config import ActorCriticConfig
from bnmodes.agents.agent import require_above_zero, require_between
from bnmodes.errors import UsageError
from bnmodes.learning.projection import ProjectionConfig
from bnmodes.protocol import Protocol, alpha, preset


@dataclass(frozen=True)
class XQCConfig(ActorCriticConfig):
    """Every setting of the agent. The defaults are the study's for Atari."""

    protocol: Protocol = field(default_factory=lambda: preset("xqc/joined"))
    """Parameters, rows, statistics and writes of each forward."""
    norm: Literal["bn", "brn"] = "bn"
    """BatchNorm, or batch renormalisation, which keeps batch statistics near the stored moments."""
    bn_epsilon: float = 1e-3
    """Added to the variance."""
    renorm_warmup_updates: int = 100_000
    """Updates in which batch renormalisation is still BatchNorm."""
    projection: ProjectionConfig = ProjectionConfig(granularity="neuron", head=True)
    """The fixed-norm projection of kernels after every optimizer step."""
    torso: Literal["nature", "minatar", "dense"] = "nature"
    """Hidden layers of the encoder: three convolutions and dense 512, or one and dense 128."""
    hidden_layers: int = 4
    """Hidden layers of the policy and of each critic (number)."""
    critic_units: int = 512
    """Units in each hidden layer of a critic (number)."""
    actor_units: int = 256
    """Units in each hidden layer of the policy (number)."""
    updates_per_decision: float = 2.0
    """UTD: critic updates for each decision."""
    learning_starts_decisions: int = 5_000
    """Decisions taken at random before the first update."""
    learning_rate: float = 3e-4
    """AdamW's step size at the start, for critics and policy; its weight decay is 0."""
    learning_rate_end_fraction: float = 0.1
    """Where the learning rate ends after falling linearly over all updates (fraction)."""
    target_weight: float = 0.005
    """Share of the online parameters in the target's, at each update."""
    policy_delay: int = 3
    """Critic updates for each update of the policy (number)."""
    atoms: int = 101
    """Atoms of the value distribution (number)."""
    v_min: float = -5.0
    """Lowest atom (scaled discounted return)."""
    v_max: float = 5.0
    """Highest atom (scaled discounted return)."""

    @property
    def has_batchnorm(self) -> bool:
        return True

    def notes(self) -> list[str]:
        """What the protocol's table cannot say."""
        moments = "parameters and stored moments" if self.moments_follow else "parameters"
        target = (
            f"The target critic's {moments} move by {self.target_weight:g} towards the online "
            "ones at each update."
            if self.protocol.bootstrap.params == "target"
            else "There is no target network."
        )
        return [
            target,
            "Joined rows are [s; s′] × [a; a′]; predict keeps the first half and bootstrap the "
            "second. Act and evaluate run the critic's encoder and the policy.",
            "Rewards are divided by the running deviation of the discounted return.",
        ]

    @property
    def moments_follow(self) -> bool:
        """The target's stored moments are averaged too where they are read."""
        return self.protocol.bootstrap.statistics == "running" or self.norm == "brn"

    def validate(self, evaluation_rows: int) -> None:
        super().validate(evaluation_rows)
        require_between(
            self,
            hidden_layers=(1, math.inf),
            critic_units=(1, math.inf),
            actor_units=(1, math.inf),
            policy_delay=(1, math.inf),
            renorm_warmup_updates=(0, math.inf),
            target_weight=(0, 1),
            learning_rate_end_fraction=(0, 1),
            atoms=(2, math.inf),
        )
        require_above_zero(self, "learning_rate", "bn_epsilon")
        for role, forward in self.protocol.roles().items():
            if forward.params == "target" and role != "bootstrap":
                raise UsageError(
                    f"{role} asks for target params, but only bootstrap has a target: use online."
                )
        if not self.v_min < self.v_max:
            raise UsageError(f"v_min {self.v_min} must be below v_max {self.v_max}.")


XQC_ARMS = ("bn-joined", "bn-separate", "bn-running", "crossq", "crossq-renorm")


def xqc_config(arm: str, env_family: str, online_alpha: float | str = 0.01) -> XQCConfig:
    """The configuration of an arm, for a family of games.

    `online_alpha` is the weight with which loss forwards write the stored moments.
    """
    if arm not in XQC_ARMS:
        raise UsageError(f"arm '{arm}' is unknown: choose one of {', '.join(XQC_ARMS)}.")
    config = XQCConfig()
    if env_family != "atari":
        # Two processor cores want smaller networks, a smaller batch and fewer updates.
        config = replace(
            config,
            torso="minatar",
            hidden_layers=2,
            critic_units=128,
            actor_units=128,
            batch_size=64,
            updates_per_decision=1.0,
            replay_capacity=100_000,
            learning_starts_decisions=1_000,
        )
    name = "crossq/joined" if arm.startswith("crossq") else f"xqc/{arm.removeprefix('bn-')}"
    return replace(
        config,
        protocol=preset(name, update=alpha(online_alpha)),
        norm="brn" if arm.endswith("renorm") else "bn",
    )
