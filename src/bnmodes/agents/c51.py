"""C51: a categorical value learner with replay and a target network that is copied hard."""

import math
from copy import deepcopy
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from bnmodes.agents.agent import Means, forward_as, linear_epsilon, of_action
from bnmodes.agents.c51_config import C51Config
from bnmodes.agents.diagnostic_rows import replay_batches
from bnmodes.diagnostics import Row, measure, rows_needed
from bnmodes.envs.contract import EnvSpec, Step
from bnmodes.execution import PLAIN, Execution
from bnmodes.learning.optimizer import Optimizer
from bnmodes.learning.projection import Projection
from bnmodes.learning.targets import categorical_projection, cross_entropy
from bnmodes.networks.value import QNetwork
from bnmodes.protocol import Mode
from bnmodes.replay.ring import Batch, Replay
from bnmodes.streams import numpy_stream, torch_stream


class C51:
    """One agent: two networks, replay, optimizer, and the counters of its schedules."""

    def __init__(
        self,
        config: C51Config,
        env: EnvSpec,
        seed: int,
        total_decisions: int,
        execution: Execution = PLAIN,
    ):
        self.config = config
        self.execution = execution
        self.num_actions = env.num_actions
        self.total_decisions = total_decisions
        self.decisions = 0
        self.updates = 0
        self.support = torch.linspace(config.v_min, config.v_max, config.atoms).to(execution.device)
        online = QNetwork(
            env.obs_shape,
            (env.num_actions, config.atoms),
            config.torso,
            config.norm,
            env.pixel_scale,
            torch_stream(seed, "network"),
        ).to(execution.device)
        self.project = Projection(config.projection, online)
        self.networks = {"online": online, "target": deepcopy(online).requires_grad_(False)}
        self.optimizer = Optimizer(
            "adam",
            online.parameters(),
            config.learning_rate,
            execution,
            epsilon=config.adam_epsilon,
        )
        self.replay = Replay(env, config.num_envs, config.replay_capacity, execution)
        self.action_stream = numpy_stream(seed, "exploration")
        self.replay_stream = numpy_stream(seed, "replay")
        self.means = Means(("loss", "predict_max_q", "bootstrap_max_q"), execution.device)
        self.update = execution.compiled(self._update)

    def begin(self, obs: np.ndarray) -> None:
        self.replay.begin(obs)

    def act(self, obs: np.ndarray) -> np.ndarray:
        explore = self.action_stream.random(len(obs)) < self.epsilon
        actions = self.action_stream.integers(self.num_actions, size=len(obs))
        if explore.all() and not self.config.protocol.act.writes:
            return actions
        return np.where(explore, actions, self._best_actions("act", obs))

    def greedy(self, obs: np.ndarray) -> np.ndarray:
        return self._best_actions("evaluate", obs)

    @torch.no_grad()
    def _best_actions(self, role: Literal["act", "evaluate"], obs: np.ndarray) -> np.ndarray:
        logits = self._forward(role, self.execution.to_device(torch.from_numpy(obs)))
        return self._q_values(logits).argmax(-1).cpu().numpy()

    def observe(self, actions: np.ndarray, step: Step) -> None:
        reward = np.sign(step.reward) if self.config.clip_rewards else step.reward
        self.replay.add(actions, reward, step)
        self.decisions += len(actions)

    def learn(self) -> None:
        now, before = self.decisions, self.decisions - self.config.num_envs
        if now <= self.config.learning_starts_decisions:
            return
        if due := self._updates_by(now) - self._updates_by(before):
            self._updates(due)
        period = self.config.target_period_decisions
        if now // period > before // period:
            self.networks["target"].load_state_dict(self.networks["online"].state_dict())

    def _updates(self, count: int) -> None:
        """Their minibatches are drawn, and brought to the device, in one go."""
        size = self.config.batch_size
        drawn = self.replay.sample(count * size, self.replay_stream)
        if self.config.calibrate_target and self.updates == 0:
            self._calibrate_target()
        for batch in drawn.split(size):
            self.means.add(self.update(batch, self.optimizer.at(self.learning_rate)))
            self.updates += 1

    def _update(self, batch: Batch, learning_rate: float | Tensor) -> Float[Tensor, "3"]:
        """Loss, and the mean max Q of its two forwards."""
        loss, predicted_q, next_q = self._loss(batch)
        self.optimizer.descend(loss, learning_rate)
        self.project()
        return torch.stack((loss.detach(), predicted_q, next_q))

    def _loss(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """And the mean max Q of the predict and of the bootstrap forward."""
        with torch.no_grad():
            next_logits = self._forward("bootstrap", batch.next_obs)  # [B, actions, atoms]
            next_q, next_action = self._q_values(next_logits).max(-1)
            target = categorical_projection(
                of_action(next_logits, next_action).softmax(-1),  # [B, atoms]
                batch.reward,
                batch.terminated,
                self.support,
                self.config.gamma,
            )
        logits = self._forward("predict", batch.obs)
        loss = cross_entropy(target, of_action(logits, batch.action)).mean()
        predicted_q = self._q_values(logits.detach()).amax(-1)
        return loss, predicted_q.mean(), next_q.mean()

    def _forward(self, role: str, obs: Tensor) -> Tensor:
        return forward_as(role, self.config.protocol, self.networks, obs)

    def _q_values(self, logits: Tensor) -> Tensor:
        return logits.softmax(-1) @ self.support

    @torch.no_grad()
    def _calibrate_target(self) -> None:
        rows = self.replay.sample(1024, self.replay_stream).next_obs
        self.networks["target"](rows, Mode(statistics="batch", update=1.0))

    def _updates_by(self, decision: int) -> int:
        # The small term keeps 10 × 0.1 from falling to 0.999….
        return math.floor(decision * self.config.updates_per_decision + 1e-6)

    @property
    def epsilon(self) -> float:
        return linear_epsilon(self.config, self.decisions / self.total_decisions)

    @property
    def learning_rate(self) -> float:
        config = self.config
        if config.learning_rate_schedule == "constant":
            return config.learning_rate
        first = self._updates_by(config.learning_starts_decisions)
        # Several environments may overshoot the last decision by a few updates.
        done = min(1.0, self.updates / max(1, self._updates_by(self.total_decisions) - first))
        return config.learning_rate * (1 - done * (1 - config.learning_rate_end_fraction))

    def take_metrics(self) -> dict[str, float]:
        settings = {"epsilon": self.epsilon, "learning_rate": self.learning_rate}
        return self.means.take() | settings | {"updates": float(self.updates)}

    def diagnose(self, obs: np.ndarray, rng: np.random.Generator) -> Row:
        rows, protocol = rows_needed(self.networks["online"]), self.config.protocol
        batches = replay_batches(self.replay, self.config.batch_size, rows, rng)
        return measure(self.networks, protocol, batches, self._q_values, self.optimizer, rng)

    def state(self) -> dict[str, Any]:
        return {
            "decisions": self.decisions,
            "updates": self.updates,
            "networks": {name: dict(net.state_dict()) for name, net in self.networks.items()},
            "optimizer": self.optimizer.state(),
            "learning_rate": self.optimizer.learning_rate,
            "replay": self.replay.state(),
            "action_stream": self.action_stream.bit_generator.state,
            "replay_stream": self.replay_stream.bit_generator.state,
            "means": self.means.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        self.decisions, self.updates = state["decisions"], state["updates"]
        self.load_networks(state["networks"])
        self.optimizer.load_state(state["optimizer"])
        self.optimizer.learning_rate = state["learning_rate"]
        self.replay.load_state(state["replay"])
        self.action_stream.bit_generator.state = state["action_stream"]
        self.replay_stream.bit_generator.state = state["replay_stream"]
        self.means.load_state(state["means"])

    def load_networks(self, networks: dict[str, Any]) -> None:
        for name, network in self.networks.items():
            network.load_state_dict(networks[name])
