"""Q-learning with a replay and a target network that is copied hard: what C51 and DQN share."""

from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from bnmodes.agents.replay_agent import ReplayAgent
from bnmodes.agents.settings import KAIMING, ReplaySettings, fixed_choices
from bnmodes.agents.shared import linear_epsilon
from bnmodes.agents.value_agent import ValueAgent, value_network
from bnmodes.bounds import Count, Fraction, Positive
from bnmodes.diagnostics import Row, replay_batches, samples_needed
from bnmodes.envs.contract import EnvSpec, Observations
from bnmodes.execution import PLAIN, Execution
from bnmodes.learning.optimizer import Optimizer
from bnmodes.networks.norms import NormSettings
from bnmodes.networks.torsos import TorsoName
from bnmodes.networks.value import QNetwork
from bnmodes.protocol import BATCH, AgentCapabilities, Forward, Mode, Protocol
from bnmodes.replay.ring import Batch


@dataclass(frozen=True)
class QLearningSettings(ReplaySettings):
    """Settings of Q-learning with a replay and a target network."""

    norm: NormSettings = NormSettings()
    """The normalisation before every ReLU."""
    torso: TorsoName = "auto"
    """Hidden layers of the network, by name; `auto` chooses by the size of an observation."""
    learning_rate: Positive = 2.5e-4
    """Adam's step size at the start."""
    adam_epsilon: Positive = 0.01 / 32
    """Adam's ε."""
    target_period_decisions: Count = 10_000
    """Decisions between copies of parameters and running statistics to the target network."""
    epsilon_start: Fraction = 1.0
    """Share of random actions at the first decision."""
    epsilon_end: Fraction = 0.01
    """Share of random actions after the decay."""
    epsilon_decay_fraction: Fraction = 0.1
    """Part of the run over which ε falls linearly (fraction of all decisions)."""
    clip_rewards: bool = True
    """Learn from the sign of each reward; reported returns stay raw."""

    def capabilities(self, evaluation_rows: int) -> AgentCapabilities:
        return AgentCapabilities(
            rows={
                "predict": {"replay-obs": self.batch_size},
                "bootstrap": {"replay-next-obs": self.batch_size},
                "act": {"acting": self.num_envs},
                "evaluate": {"evaluation": evaluation_rows},
            },
            has_target=True,
            has_batchnorm=self.norm.kind == "bn",
        )

    def fixed(self) -> dict[str, str]:
        return fixed_choices("Adam", KAIMING)

    def notes(self) -> list[str]:
        period = f"every {self.target_period_decisions:,} decisions"
        if self.norm.kind != "bn":
            return [f"The target network gets the parameters of the online one {period}."]
        first = "" if self.protocol.calibrate else ", mean 0 and variance 1"
        return [
            f"The target network gets parameters and running statistics of the online one {period};"
            f" before the first copy it has the initial weights{first}."
        ]


def q_learning_protocol(bootstrap: Mode = BATCH, update: float = 0.01) -> Protocol:
    """With BatchNorm: predict uses its batch and updates the running statistics with weight
    `update`. One environment acts at a time, so acting can only read running statistics."""
    reading = Mode(statistics="running")
    return Protocol(
        predict=Forward.of(Mode(statistics="batch", update=update), "online", "replay-obs"),
        bootstrap=Forward.of(bootstrap, "target", "replay-next-obs"),
        act=Forward.of(reading, "online", "acting"),
        evaluate=Forward.of(reading, "online", "evaluation"),
    )


def q_learning_protocol_without_batchnorm() -> Protocol:
    none = Mode(statistics="none")
    return Protocol(
        predict=Forward.of(none, "online", "replay-obs"),
        bootstrap=Forward.of(none, "target", "replay-next-obs"),
        act=Forward.of(none, "online", "acting"),
        evaluate=Forward.of(none, "online", "evaluation"),
    )


class QLearner(ValueAgent, ReplayAgent):
    """ε-greedy acting, updates by `loss`, hard copies to the target network.

    A subclass gives the shape of the head and writes `q_values` and `loss`; it may add to
    `finish_update`, which runs after each optimizer step.
    """

    settings: QLearningSettings
    networks: dict[str, QNetwork]

    def __init__(
        self,
        settings: QLearningSettings,
        env: EnvSpec,
        seed: int,
        total_decisions: int,
        execution: Execution = PLAIN,
        *,
        head_shape: tuple[int, ...],
    ):
        online = value_network(settings.torso, settings.norm, env, head_shape, seed, execution)
        optimizer = Optimizer(
            "adam",
            online.parameters(),
            settings.learning_rate,
            execution,
            epsilon=settings.adam_epsilon,
        )
        super().__init__(
            settings,
            env,
            seed,
            total_decisions,
            execution,
            networks={"online": online, "target": deepcopy(online).requires_grad_(False)},
            optimizers={"value": optimizer},
            metrics=("loss", "predict_max_q", "bootstrap_max_q"),
        )
        self.compiled_update = execution.compiled(self._update)

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """The loss, the mean max-Q of the predict forward, and that of the bootstrap forward."""
        raise NotImplementedError

    def finish_update(self) -> None:
        """After each optimizer step, inside the compiled update."""

    def act(self, obs: Observations) -> np.ndarray:
        explore = self.action_stream.random(len(obs)) < self.epsilon
        actions = self.action_stream.integers(self.num_actions, size=len(obs))
        if explore.all() and not self.settings.protocol.act.writes:
            return actions
        return np.where(explore, actions, self.best_actions("act", obs))

    def learnt_reward(self, reward: np.ndarray) -> np.ndarray:
        return np.sign(reward) if self.settings.clip_rewards else reward

    def learn(self) -> None:
        super().learn()
        now, before = self.decisions, self.decisions - self.settings.num_envs
        period = self.settings.target_period_decisions
        learning = now > self.settings.learning_starts_decisions
        if learning and now // period > before // period:
            self.networks["target"].load_state_dict(self.networks["online"].state_dict())

    def update_on(self, batch: Batch) -> None:
        rate = self.optimizers["value"].at(self.learning_rate)
        self.means.add(self.compiled_update(batch, rate))
        self.updates += 1

    def _update(self, batch: Batch, learning_rate: float | Tensor) -> Float[Tensor, "3"]:
        """One optimizer step; returns what `loss` does."""
        loss, predicted_q, next_q = self.loss(batch)
        self.optimizers["value"].descend(loss, learning_rate)
        self.finish_update()
        return torch.stack((loss.detach(), predicted_q, next_q))

    @property
    def epsilon(self) -> float:
        return linear_epsilon(self.settings, self.decisions / self.total_decisions)

    @property
    def learning_rate(self) -> float:
        return self.settings.learning_rate

    @property
    def acting_group(self) -> int:
        """Rows that acting is diagnosed on where one environment acts: one row has no variance."""
        return self.settings.batch_size

    def take_metrics(self) -> dict[str, float]:
        now = {"epsilon": self.epsilon, "learning_rate": self.learning_rate}
        return self.means.take() | now | {"updates": float(self.updates)}

    def diagnose(self, obs: Observations, rng: np.random.Generator) -> Row:
        optimizer, head = self.optimizers["value"], self.networks["online"].head
        if not optimizer.has_stepped:
            return {}
        samples = samples_needed(head)
        batches = replay_batches(
            self.replay, self.settings.batch_size, samples, self.acting_group, rng
        )
        return self.measured(batches, optimizer, rng)
