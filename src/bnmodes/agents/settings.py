"""Base classes of agents' settings: of all agents, of those with a replay, of actor-critics."""

from dataclasses import dataclass, replace

from bnmodes.bounds import Count, Fraction, NotNegative, Positive, Whole, check_bounds
from bnmodes.envs.contract import EnvSpec
from bnmodes.errors import UsageError
from bnmodes.learning.optimizer import BETAS
from bnmodes.networks.torsos import TorsoName
from bnmodes.protocol import (
    BATCH,
    RUNNING,
    AgentCapabilities,
    Forward,
    Mode,
    Params,
    Population,
    Protocol,
)
from bnmodes.replay.ring import Replay


def fixed_choices(
    optimizer: str,
    initialisation: str,
    activation: str = "ReLU",
    betas: tuple[float, float] = BETAS,
) -> dict[str, str]:
    """The rows of a table of hyperparameters that every agent has."""
    return {
        "optimizer": f"{optimizer}, β ({betas[0]:g}, {betas[1]:g})",
        "initialisation": f"{initialisation}; biases 0",
        "activation": activation,
    }


KAIMING = "Kaiming normal (gain √2)"


@dataclass(frozen=True)
class AgentSettings:
    """Implements the contract `agents.agent.Settings`, but for `capabilities`."""

    protocol: Protocol
    """Parameters, batch, statistics and updates of each forward."""
    num_envs: Count = 1
    """Environments that act side by side (number)."""

    @property
    def env_rows(self) -> int:
        return self.num_envs

    def capabilities(self, evaluation_rows: int) -> AgentCapabilities:
        raise NotImplementedError

    def memory_bytes(self, env: EnvSpec) -> int:
        return 0

    def for_timing(self) -> "AgentSettings":
        return self

    def fixed(self) -> dict[str, str]:
        return {}

    def notes(self) -> list[str]:
        return []

    def warnings(self, total_decisions: int) -> list[str]:
        return []

    def validate(self, evaluation_rows: int) -> None:
        check_bounds(self)
        self.protocol.validate(self.capabilities(evaluation_rows))


@dataclass(frozen=True)
class ReplaySettings(AgentSettings):
    """Settings of an agent that learns from minibatches of a replay."""

    updates_per_decision: Positive = 1.0
    """UTD: optimizer steps for each decision; 0.25 is one every four decisions."""
    batch_size: Count = 32
    """Transitions in a minibatch (number)."""
    gamma: Fraction = 0.99
    """Discount of one decision."""
    replay_capacity: Count = 1_000_000
    """Newest transitions kept (number)."""
    learning_starts_decisions: Whole = 20_000
    """Decisions before the first update."""

    def memory_bytes(self, env: EnvSpec) -> int:
        return Replay(env, self.num_envs, self.replay_capacity).nbytes

    def for_timing(self) -> "ReplaySettings":
        return replace(self, replay_capacity=1_000, learning_starts_decisions=0)

    def warnings(self, total_decisions: int) -> list[str]:
        if total_decisions > self.learning_starts_decisions:
            return []
        return [
            f"learning starts at decision {self.learning_starts_decisions:,}, after the end of "
            "this run (learning_starts_decisions)"
        ]

    def validate(self, evaluation_rows: int) -> None:
        super().validate(evaluation_rows)
        least = max(self.batch_size, self.num_envs)
        if self.replay_capacity < least:
            raise UsageError(
                f"replay_capacity is {self.replay_capacity}, but must be at least {least}."
            )


@dataclass(frozen=True)
class ValueRange:
    """Mixed into settings with a histogram of values: its two ends."""

    v_min: float = -10.0
    """Lowest value of the histogram (discounted return)."""
    v_max: float = 10.0
    """Highest value of the histogram (discounted return)."""

    def validate(self, evaluation_rows: int) -> None:
        super().validate(evaluation_rows)  # type: ignore[misc]  # of what it is mixed into
        if not self.v_min < self.v_max:
            raise UsageError(f"v_min {self.v_min} must be below v_max {self.v_max}.")


@dataclass(frozen=True)
class ActorCriticSettings(ReplaySettings):
    """The settings that TD3, XQC, CrossQ and MR.Q share; the defaults are the study's for Atari."""

    batch_size: Count = 256
    """Transitions in a minibatch (number)."""
    learning_starts_decisions: Whole = 10_000
    """Decisions taken at random before the first update."""
    torso: TorsoName = "nature"
    """Hidden layers of the encoder, by name; `auto` chooses by the size of an observation."""
    temperature: Positive = 10.0
    """Of the Gumbel-Softmax policy: the higher, the nearer its actions are to uniform."""
    exploration_noise: NotNegative = 0.1
    """Standard deviation of the noise on a relaxed action that is played."""
    target_noise: NotNegative = 0.1
    """Standard deviation of the noise on a relaxed action that is bootstrapped from."""
    target_noise_clip: NotNegative = 0.25
    """Clip range of `target_noise`."""
    evaluate_sampled: bool = False
    """Evaluate with a sample of the policy instead of its most likely action."""

    def capabilities(self, evaluation_rows: int) -> AgentCapabilities:
        obs: dict[Population, int] = {"replay-obs": self.batch_size}
        next_obs: dict[Population, int] = {"replay-next-obs": self.batch_size}
        joined: dict[Population, int] = {"joined": 2 * self.batch_size}
        if not self.has_batchnorm:
            joined = {}
        return AgentCapabilities(
            rows={
                "predict": obs | joined,
                "bootstrap": next_obs | joined,
                "act": {"acting": self.num_envs},
                "evaluate": {"evaluation": evaluation_rows},
                "improve": obs,
                "improve_critic": obs,
                "bootstrap_actor": next_obs,
            },
            has_target=True,
            has_batchnorm=self.has_batchnorm,
        )

    def validate(self, evaluation_rows: int) -> None:
        super().validate(evaluation_rows)
        judge = self.protocol.improve_critic
        if judge and judge.track is not None:
            raise UsageError(
                "improve_critic runs the critic in two parts, so no discarded pass goes through "
                "all of it: drop its track."
            )

    @property
    def has_batchnorm(self) -> bool:
        return False


def actor_critic_protocol(
    predict: Forward, bootstrap: Forward, act: Mode, improve: Mode, policy_params: Params
) -> Protocol:
    """The policy's loss runs the critic as acting does: one environment acts at a time, so with
    BatchNorm both read running statistics."""
    return Protocol(
        predict=predict,
        bootstrap=bootstrap,
        act=Forward.of(act, "online", "acting"),
        evaluate=Forward.of(act, "online", "evaluation"),
        improve=Forward.of(improve, "online", "replay-obs"),
        improve_critic=Forward.of(act, "online", "replay-obs"),
        bootstrap_actor=Forward.of(act, policy_params, "replay-next-obs"),
    )


def protocol_without_batchnorm() -> Protocol:
    none = Mode(statistics="none")
    return actor_critic_protocol(
        predict=Forward.of(none, "online", "replay-obs"),
        bootstrap=Forward.of(none, "target", "replay-next-obs"),
        act=none,
        improve=none,
        policy_params="target",
    )


def batchnorm_protocol(
    joined: bool = True, bootstrap: Mode = BATCH, params: Params = "target", update: float = 0.01
) -> Protocol:
    """Joined: the critics see (s, a) and (s′, a′) as one batch; else as two. `params` are those of
    the bootstrap, and `update` is the weight with which loss forwards update running statistics."""
    predict = Mode(statistics="batch", update=update)
    return actor_critic_protocol(
        predict=Forward.of(predict, "online", "joined" if joined else "replay-obs"),
        bootstrap=Forward.of(bootstrap, params, "joined" if joined else "replay-next-obs"),
        act=RUNNING,
        improve=predict,
        policy_params="online",
    )
