"""The settings that TD3, XQC and MR.Q share."""

import math
from dataclasses import dataclass, replace

from bnmodes.agents.agent import (
    never_learns_note,
    require_above_zero,
    require_between,
    require_finite,
)
from bnmodes.envs.contract import EnvSpec
from bnmodes.protocol import Protocol, Setting
from bnmodes.replay.ring import Replay


@dataclass(frozen=True)
class ActorCriticConfig:
    """The settings that all three have; the defaults are the study's for Atari."""

    protocol: Protocol
    """Parameters, rows, statistics and writes of each forward."""
    num_envs: int = 1
    """Environments that act side by side (number)."""
    updates_per_decision: float = 1.0
    """UTD: critic updates for each decision."""
    batch_size: int = 256
    """Transitions in a minibatch (number)."""
    gamma: float = 0.99
    """Discount of one decision."""
    replay_capacity: int = 1_000_000
    """Newest transitions kept (number)."""
    learning_starts_decisions: int = 10_000
    """Decisions taken at random before the first update."""
    temperature: float = 10.0
    """Of the Gumbel-Softmax policy: the higher, the nearer its actions are to uniform."""
    exploration_noise: float = 0.1
    """Standard deviation of the noise on a relaxed action that is played."""
    target_noise: float = 0.1
    """Standard deviation of the noise on a relaxed action that is bootstrapped from."""
    target_noise_clip: float = 0.25
    """Largest size of that noise."""
    evaluate_sampled: bool = False
    """Evaluate with a sample of the policy instead of its most likely action."""

    @property
    def env_rows(self) -> int:
        return self.num_envs

    def memory_bytes(self, env: EnvSpec) -> int:
        return Replay(env, self.num_envs, self.replay_capacity).nbytes

    def rehearsal(self) -> "ActorCriticConfig":
        """The same work from the first decisions on, to measure how long it takes."""
        return replace(self, replay_capacity=1_000, learning_starts_decisions=0)

    def setting(self, evaluation_rows: int) -> Setting:
        obs, following = {"replay-obs": self.batch_size}, {"replay-next-obs": self.batch_size}
        joined = {"joined": 2 * self.batch_size} if self.has_batchnorm else {}
        return Setting(
            rows={
                "predict": obs | joined,
                "bootstrap": following | joined,
                "act": {"acting": self.num_envs},
                "evaluate": {"evaluation": evaluation_rows},
                "improve": obs,
                "improve_critic": obs,
                "bootstrap_actor": following,
            },
            has_target=True,
            has_batchnorm=self.has_batchnorm,
        )

    @property
    def has_batchnorm(self) -> bool:
        return False

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
            replay_capacity=(max(self.batch_size, self.num_envs), math.inf),
            gamma=(0, 1),
            exploration_noise=(0, math.inf),
            target_noise=(0, math.inf),
            target_noise_clip=(0, math.inf),
        )
        require_above_zero(self, "updates_per_decision", "temperature")
        self.protocol.validate(self.setting(evaluation_rows))
