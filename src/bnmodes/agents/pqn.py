"""PQN: Q(λ) on parallel rollouts, with neither replay nor a target network."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from bnmodes.agents.agent import Means, forward_as, linear_epsilon, of_action
from bnmodes.agents.diagnostic_rows import rollout_batches
from bnmodes.agents.pqn_config import PQNConfig
from bnmodes.diagnostics import Row, measure, rows_needed
from bnmodes.envs.contract import EnvSpec, Step
from bnmodes.execution import PLAIN, Execution
from bnmodes.learning.optimizer import Optimizer
from bnmodes.learning.targets import HLGauss, cross_entropy, q_lambda
from bnmodes.networks.value import QNetwork
from bnmodes.protocol import Role
from bnmodes.streams import numpy_stream, torch_stream


class PQN:
    """One agent: a network, the rollout under way, an optimizer, and counters."""

    def __init__(
        self,
        config: PQNConfig,
        env: EnvSpec,
        seed: int,
        total_decisions: int,
        execution: Execution = PLAIN,
    ):
        self.config = config
        self.execution = execution
        self.num_actions = env.num_actions
        per_update = config.num_envs * config.rollout_steps
        self.total_updates = max(1, total_decisions // per_update)
        self.updates = 0
        histogram = config.head == "hl-gauss"
        self.histogram = HLGauss(config.bins, config.v_min, config.v_max) if histogram else None
        head = (env.num_actions, config.bins) if histogram else (env.num_actions,)
        network = QNetwork(
            env.obs_shape,
            head,
            config.torso,
            config.norm,
            env.pixel_scale,
            torch_stream(seed, "network"),
        ).to(execution.device)
        self.networks = {"online": network}
        self.optimizer = Optimizer("radam", network.parameters(), config.learning_rate, execution)
        self.action_stream = numpy_stream(seed, "exploration")
        self.shuffle_stream = numpy_stream(seed, "shuffle")
        metrics = ("loss", "predict_max_q", "mean_target", "gradient_norm")
        self.means = Means(metrics, execution.device)
        steps = (config.rollout_steps, config.num_envs)
        observations = {"size": (*steps, *env.obs_shape), "dtype": getattr(torch, env.dtype)}
        device = execution.device
        self.rollout = {
            "obs": torch.zeros(**observations, device=device),
            "next_obs": torch.zeros(**observations, device=device),
            "acting_value": torch.zeros(steps, device=device),
            # Small, and looked at: on the host, until the rollout is learnt from.
            "action": torch.zeros(steps, dtype=torch.int64),
            "reward": torch.zeros(steps),
            "terminated": torch.zeros(steps, dtype=torch.bool),
            "cut": torch.zeros(steps, dtype=torch.bool),
        }
        self.step = 0
        self.update = execution.compiled(self._update)
        self.next_value = execution.compiled(self._next_value)

    def begin(self, obs: np.ndarray) -> None:
        """New games in every environment: a rollout under way goes on with them, cut here."""
        if self.step:
            self.rollout["cut"][self.step - 1] = True

    def act(self, obs: np.ndarray) -> np.ndarray:
        envs, obs = self.config.num_envs, self._to_device(obs)
        with torch.no_grad():
            values, greedy = self._q_values(self._forward("act", obs)).max(-1)
        self.rollout["obs"][self.step] = obs[:envs]
        self.rollout["acting_value"][self.step] = values[:envs]
        actions = greedy.cpu().numpy().copy()
        explore = self.action_stream.random(envs) < self.epsilon
        random_actions = self.action_stream.integers(self.num_actions, size=envs)
        actions[:envs] = np.where(explore, random_actions, actions[:envs])
        return actions

    @torch.no_grad()
    def greedy(self, obs: np.ndarray) -> np.ndarray:
        logits = self._forward("evaluate", self._to_device(obs))
        return self._q_values(logits).argmax(-1).cpu().numpy()

    def _to_device(self, array: np.ndarray) -> Tensor:
        return self.execution.to_device(torch.from_numpy(array))

    def observe(self, actions: np.ndarray, step: Step) -> None:
        envs = self.config.num_envs
        reward = np.sign(step.reward) if self.config.clip_rewards else step.reward
        for name, rows in (
            ("action", actions),
            ("reward", reward),
            ("terminated", step.terminated),
            ("cut", step.game_over),
        ):
            self.rollout[name][self.step] = torch.from_numpy(rows[:envs])
        self.rollout["next_obs"][self.step] = self._to_device(step.next_obs[:envs])
        self.step += 1

    def learn(self) -> None:
        if self.step < self.config.rollout_steps:
            return
        rows = {name: self.execution.to_device(part) for name, part in self.rollout.items()}
        targets = self._targets(rows).flatten()
        obs, action = rows["obs"].flatten(0, 1), rows["action"].flatten()
        for _ in range(self.config.epochs):
            order = self._to_device(self.shuffle_stream.permutation(len(action)))
            for chosen in order.split(self.config.minibatch_size):
                self.means.add(self.update(obs[chosen], action[chosen], targets[chosen]))
        self.updates += 1
        self.step = 0

    def _targets(self, rollout: Mapping[str, Tensor]) -> Tensor:
        """[steps, envs]"""
        return q_lambda(
            rollout["reward"],
            self._next_values(rollout),
            rollout["terminated"],
            rollout["cut"],
            self.config.gamma,
            self.config.trace,
        )

    @torch.no_grad()
    def _next_values(self, rollout: Mapping[str, Tensor]) -> Tensor:
        """max Q of the true next observation of each step, [steps, envs]."""
        next_obs, values = rollout["next_obs"], rollout["acting_value"].roll(-1, dims=0)
        if self.config.bootstrap_source == "recompute":
            for step in range(self.step):
                values[step] = self.next_value(next_obs[step])
            return values
        values[-1] = self.next_value(next_obs[-1])
        # After a truncation the next acting value is another game's.
        cut, terminated = self.rollout["cut"][:-1], self.rollout["terminated"][:-1]
        for step in (cut & ~terminated).any(1).nonzero()[:, 0].tolist():
            own = self.next_value(next_obs[step])
            values[step] = torch.where(rollout["cut"][step], own, values[step])
        return values

    def _next_value(self, next_obs: Tensor) -> Tensor:
        return self._q_values(self._forward("bootstrap", next_obs)).amax(-1)

    def _update(self, obs: Tensor, action: Tensor, target: Tensor) -> Float[Tensor, "4"]:
        """Loss, mean max Q, mean target, and the gradient's norm."""
        loss, predicted_q = self._loss(obs, action, target)
        rate, clip = self.config.learning_rate, self.config.gradient_clip
        norm = self.optimizer.descend(loss, rate, clip)
        return torch.stack((loss.detach(), predicted_q, target.mean(), norm))

    def _loss(self, obs: Tensor, action: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """And the mean max Q of its forward."""
        output = self._forward("predict", obs)
        if self.histogram is None:
            chosen = output.gather(1, action[:, None]).squeeze(1)
            loss = 0.5 * (chosen - target).square().mean()
        else:
            chosen = of_action(output, action)  # [B, bins]
            loss = cross_entropy(self.histogram.encode(target), chosen).mean()
        return loss, self._q_values(output.detach()).amax(-1).mean()

    def _forward(self, role: Role, obs: Tensor) -> Tensor:
        return forward_as(role, self.config.protocol, self.networks, obs)

    def _q_values(self, output: Tensor) -> Tensor:
        """[B, actions]"""
        return output if self.histogram is None else self.histogram.decode(output.softmax(-1))

    @property
    def epsilon(self) -> float:
        return linear_epsilon(self.config, self.updates / self.total_updates)

    def take_metrics(self) -> dict[str, float]:
        settings = {"epsilon": self.epsilon, "learning_rate": self.config.learning_rate}
        return self.means.take() | settings | {"updates": float(self.updates)}

    def diagnose(self, obs: np.ndarray, rng: np.random.Generator) -> Row:
        rows, protocol = rows_needed(self.networks["online"]), self.config.protocol
        batches = rollout_batches(self.rollout, self.config.minibatch_size, obs, rows, rng)
        return measure(self.networks, protocol, batches, self._q_values, self.optimizer, rng)

    def state(self) -> dict[str, Any]:
        return {
            "updates": self.updates,
            "step": self.step,
            "rollout": self.rollout,
            "networks": {name: dict(net.state_dict()) for name, net in self.networks.items()},
            "optimizer": self.optimizer.state(),
            "action_stream": self.action_stream.bit_generator.state,
            "shuffle_stream": self.shuffle_stream.bit_generator.state,
            "means": self.means.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        self.updates, self.step = state["updates"], state["step"]
        for name, tensor in self.rollout.items():
            tensor.copy_(state["rollout"][name])
        self.load_networks(state["networks"])
        self.optimizer.load_state(state["optimizer"])
        self.action_stream.bit_generator.state = state["action_stream"]
        self.shuffle_stream.bit_generator.state = state["shuffle_stream"]
        self.means.load_state(state["means"])

    def load_networks(self, networks: dict[str, Any]) -> None:
        self.networks["online"].load_state_dict(networks["online"])
