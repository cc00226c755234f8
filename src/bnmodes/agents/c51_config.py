"""The settings of C51, and the paper's arms."""

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from bnmodes.agents.agent import (
    never_learns_note,
    require_above_zero,
    require_between,
    require_finite,
)
from bnmodes.envs.contract import EnvSpec
from bnmodes.errors import UsageError
from bnmodes.learning.projection import ProjectionConfig
from bnmodes.networks.value import NormConfig
from bnmodes.protocol import Protocol, Setting, alpha, preset
from bnmodes.replay.ring import Replay


@dataclass(frozen=True)
class C51Config:
    """Every setting of the agent. The defaults are the paper's for Atari."""

    protocol: Protocol = field(default_factory=lambda: preset("c51/none"))
    """Parameters, rows, statistics and writes of each forward."""
    norm: NormConfig = NormConfig()
    """The normalisation before every ReLU."""
    projection: ProjectionConfig = ProjectionConfig()
    """The fixed-norm projection of kernels after every optimizer step."""
    torso: Literal["nature", "minatar", "dense"] = "nature"
    """Hidden layers: three convolutions and dense 512, or one convolution and dense 128."""
    num_envs: int = 1
    """Environments that act side by side (number)."""
    updates_per_decision: float = 0.25
    """UTD: optimizer steps for each decision; 0.25 is one every four decisions."""
    batch_size: int = 32
    """Transitions in a minibatch (number)."""
    learning_rate: float = 2.5e-4
    """Adam's step size at the start."""
    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    """Keep the learning rate, or let it fall linearly over all updates."""
    learning_rate_end_fraction: float = 0.0
    """Where a linear schedule ends (fraction of the learning rate)."""
    adam_epsilon: float = 0.01 / 32
    """Adam's ε."""
    gamma: float = 0.99
    """Discount of one decision."""
    replay_capacity: int = 1_000_000
    """Newest transitions kept (number)."""
    learning_starts_decisions: int = 20_000
    """Decisions before the first update."""
    target_period_decisions: int = 10_000
    """Decisions between hard copies of parameters and stored moments to the target."""
    calibrate_target: bool = False
    """Set the target's stored moments from replay before the first bootstrap (control arm)."""
    epsilon_start: float = 1.0
    """Share of random actions at the first decision."""
    epsilon_end: float = 0.01
    """Share of random actions after the decay."""
    epsilon_decay_fraction: float = 0.1
    """Part of the run over which ε falls linearly (fraction of all decisions)."""
    clip_rewards: bool = True
    """Learn from the sign of each reward; reported returns stay raw."""
    atoms: int = 51
    """Atoms of the value distribution (number)."""
    v_min: float = -10.0
    """Lowest atom (discounted return)."""
    v_max: float = 10.0
    """Highest atom (discounted return)."""

    @property
    def env_rows(self) -> int:
        return self.num_envs

    def memory_bytes(self, env: EnvSpec) -> int:
        return Replay(env, self.num_envs, self.replay_capacity).nbytes

    def rehearsal(self) -> "C51Config":
        """The same work from the first decisions on, to measure how long it takes."""
        return replace(self, replay_capacity=1_000, learning_starts_decisions=0)

    def setting(self, evaluation_rows: int) -> Setting:
        return Setting(
            rows={
                "predict": {"replay-obs": self.batch_size},
                "bootstrap": {"replay-next-obs": self.batch_size},
                "act": {"acting": self.num_envs},
                "evaluate": {"evaluation": evaluation_rows},
            },
            has_target=True,
            has_batchnorm=self.norm.kind == "bn",
        )

    def notes(self) -> list[str]:
        """What the protocol's table cannot say."""
        period = f"every {self.target_period_decisions:,} decisions"
        if self.norm.kind != "bn":
            return [f"The target network gets the parameters of the online one {period}."]
        notes = [
            f"The target network gets parameters and stored moments of the online one {period}; "
            "before the first copy it has the initial weights, mean 0 and variance 1."
        ]
        if self.calibrate_target:
            notes.append("Its first moments are set from 1,024 replay rows before any bootstrap.")
        return notes

    def warnings(self, total_decisions: int) -> list[str]:
        """What is allowed, but probably not meant."""
        return never_learns_note(self, total_decisions)

    def validate(self, evaluation_rows: int) -> None:
        require_finite(self)
        require_between(
            self,
            num_envs=(1, math.inf),
            batch_size=(1, math.inf),
            learning_starts_decisions=(0, math.inf),
            target_period_decisions=(1, math.inf),
            replay_capacity=(max(self.batch_size, self.num_envs), math.inf),
            atoms=(2, math.inf),
            gamma=(0, 1),
            epsilon_start=(0, 1),
            epsilon_end=(0, 1),
            epsilon_decay_fraction=(0, 1),
            learning_rate_end_fraction=(0, 1),
        )
        require_above_zero(self, "updates_per_decision", "learning_rate", "adam_epsilon")
        self.norm.validate()
        if self.calibrate_target and self.norm.kind != "bn":
            raise UsageError("calibrate_target sets stored moments: only BatchNorm has them.")
        if not self.v_min < self.v_max:
            raise UsageError(f"v_min {self.v_min} must be below v_max {self.v_max}.")
        self.protocol.validate(self.setting(evaluation_rows))


C51_ARMS = ("none", "ln", "bn-running", "bn-batch", "bn-tracked", "ln-wn", "bn-wn")


def c51_config(
    arm: str, env_family: str, tracking_alpha: float | str = 0.01, online_alpha: float = 0.01
) -> C51Config:
    """The configuration of one of the paper's arms, for a family of games."""
    if arm not in C51_ARMS:
        raise UsageError(f"arm '{arm}' is unknown: choose one of {', '.join(C51_ARMS)}.")
    config = C51Config()
    if env_family != "atari":
        config = replace(
            config,
            torso="minatar",
            replay_capacity=100_000,
            learning_starts_decisions=5_000,
            target_period_decisions=1_000,
        )
    kind, _, rest = arm.partition("-")
    name = {
        "bn-running": "c51/running",
        "bn-batch": "c51/batch",
        "bn-wn": "c51/batch",
        "bn-tracked": f"c51/tracked-{alpha(tracking_alpha)}",
    }.get(arm, "c51/none")
    projected = rest == "wn"
    return replace(
        config,
        protocol=preset(name, update=online_alpha),
        norm=NormConfig(kind=kind),
        projection=ProjectionConfig(granularity="neuron" if projected else "none"),
        learning_rate_schedule="linear" if projected else "constant",
    )
