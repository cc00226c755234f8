"""PQN: Q(λ) on parallel rollouts, with neither a replay nor a target network.

Gallici, Fellows, Ellis, Pou, Masmitja, Foerster, Martin: "Simplifying Deep Temporal Difference
Learning", ICLR 2025, arXiv:2407.04811. The arms are those of "On BatchNorm Forward Modes in
Value-Based Reinforcement Learning". One update:
    act ε-greedily for 32 steps in 128 environments, with 8 greedy test environments in the batch
    bootstrap: max-Q of the next observation of every step
    Q(λ) returns from the last step backwards: the learning targets
    predict: shuffled minibatches, squared error or cross-entropy, clipped gradient, RAdam step
    two epochs over the rollout, then throw it away
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from bnmodes.agents.agent import AgentKind
from bnmodes.agents.pqn_arms import ARMS
from bnmodes.agents.pqn_settings import PQNSettings
from bnmodes.agents.shared import Means, linear_epsilon, needs_spare_rows, of_action
from bnmodes.agents.suites import PQN_SUITES
from bnmodes.agents.value_agent import ValueAgent, value_network
from bnmodes.diagnostics import Row, rollout_batches, samples_needed
from bnmodes.envs.contract import EnvSpec, Step
from bnmodes.execution import PLAIN, Execution
from bnmodes.learning.optimizer import Optimizer
from bnmodes.learning.targets import HLGauss, cross_entropy, q_lambda
from bnmodes.protocol import Role
from bnmodes.replay.rollout import Rollout
from bnmodes.streams import numpy_stream


class PQNAgent(ValueAgent):
    settings: PQNSettings

    def __init__(
        self,
        settings: PQNSettings,
        env: EnvSpec,
        seed: int,
        total_decisions: int,
        execution: Execution = PLAIN,
    ):
        self.settings, self.execution = settings, execution
        self.num_actions = env.num_actions
        self.total_updates = max(1, total_decisions // (settings.num_envs * settings.rollout_steps))
        self.decisions = self.updates = 0
        self.histogram: HLGauss | None = None
        head: tuple[int, ...] = (env.num_actions,)
        if settings.head == "hl-gauss":
            self.histogram = HLGauss(settings.bins, settings.v_min, settings.v_max)
            head = (env.num_actions, settings.bins)
        scheme = settings.head_initialisation
        network = value_network(settings.torso, settings.norm, env, head, seed, execution, scheme)
        self.networks = {"online": network}
        self.optimizer = Optimizer("radam", network.parameters(), settings.learning_rate, execution)
        self.action_stream = numpy_stream(seed, "exploration")
        self.shuffle_stream = numpy_stream(seed, "shuffle")
        self.moment_stream = numpy_stream(seed, "moments")
        names = ("loss", "predict_max_q", "mean_target", "gradient_norm")
        self.means = Means(names, execution.device)
        self.rollout = Rollout(env, settings.rollout_steps, settings.num_envs, execution)
        self.update = execution.compiled(self._update)
        self.next_value = execution.compiled(self._next_value)

    def begin(self, obs: np.ndarray) -> None:
        """A rollout that is not yet full goes on with the new episodes."""
        self.rollout.cut_here()

    def act(self, obs: np.ndarray) -> np.ndarray:
        envs, rows = self.settings.num_envs, self._to_device(obs)
        with torch.no_grad():
            values, greedy = self.q_values(self.forward("act", rows)).max(-1)
        self.rollout.add_acting(rows[:envs], values[:envs])
        actions = greedy.cpu().numpy().copy()
        explore = np.flatnonzero(self.action_stream.random(envs) < self.epsilon)
        actions[explore] = self.action_stream.integers(self.num_actions, size=envs)[explore]
        return actions

    def _to_device(self, array: np.ndarray) -> Tensor:
        return self.execution.to_device(torch.from_numpy(array))

    def observe(self, actions: np.ndarray, step: Step) -> None:
        reward = np.sign(step.reward) if self.settings.clip_rewards else step.reward
        if self.settings.truncation_terminates:
            step = replace(step, terminated=step.terminated | step.game_over)
        self.rollout.add(actions, reward, step)
        self.decisions += self.settings.num_envs

    def learn(self) -> None:
        if not self.rollout.is_full:
            return
        rows = self.rollout.on_device()
        targets = self._targets(rows).flatten()
        parts = (rows["obs"].flatten(0, 1), rows["action"].flatten(), targets)
        for _ in range(self.settings.epochs):
            order = self._to_device(self.shuffle_stream.permutation(len(targets)))
            for chosen in order.split(self.settings.minibatch_size):
                # Of pictures, obs[chosen] takes 15 times as long.
                minibatch = (part.index_select(0, chosen) for part in parts)
                self.means.add(self.update(*minibatch))
        self.updates += 1
        self.rollout.clear()

    def _targets(self, rollout: Mapping[str, Tensor]) -> Float[Tensor, "steps envs"]:
        """Q(λ) returns of a rollout on the device."""
        return q_lambda(
            rollout["reward"],
            self._next_values(rollout),
            rollout["terminated"],
            rollout["cut"],
            self.settings.gamma,
            self.settings.trace,
        )

    @torch.no_grad()
    def _next_values(self, rollout: Mapping[str, Tensor]) -> Float[Tensor, "steps envs"]:
        """Max-Q of the true next observation of each step."""
        next_obs, values = rollout["next_obs"], rollout["acting_value"].roll(-1, dims=0)
        if self.settings.bootstrap_source == "recompute":
            for step in range(len(next_obs)):
                values[step] = self._drawn_next_value(next_obs[step])
            return values
        values[-1] = self._drawn_next_value(next_obs[-1])
        # After a truncation the next acting value is another episode's.
        truncated = self.rollout.cut[:-1] & ~self.rollout.terminated[:-1]
        for step in truncated.any(1).nonzero()[:, 0].tolist():
            own = self._drawn_next_value(next_obs[step])
            values[step] = torch.where(rollout["cut"][step], own, values[step])
        return values

    def _drawn_next_value(self, next_obs: Tensor) -> Tensor:
        """Max-Q, with newly drawn rows where the bootstrap uses the statistics of other rows."""
        return self.next_value(next_obs, self.spare_rows("bootstrap", self.moment_stream))

    def _next_value(self, next_obs: Tensor, moment_obs: Tensor | None) -> Tensor:
        return self.q_values(self.forward("bootstrap", next_obs, moment_obs)).amax(-1)

    def spare_rows(self, role: Role, rng: np.random.Generator) -> Tensor | None:
        """Next observations of the whole rollout."""
        declared = self.settings.protocol.forward(role)
        if not needs_spare_rows(declared):
            return None
        pooled = declared.moments == "pool"
        rows = self.settings.pool_rows if pooled else self.settings.num_envs
        every = self.rollout.next_obs.flatten(0, 1)
        return every[self._to_device(rng.integers(len(every), size=rows))]

    def _update(self, obs: Tensor, action: Tensor, target: Tensor) -> Float[Tensor, "4"]:
        """One optimizer step; returns loss, mean max-Q, mean target, and the gradient's norm."""
        loss, predicted_q = self._loss(obs, action, target)
        rate, clip = self.settings.learning_rate, self.settings.gradient_clip
        norm = self.optimizer.descend(loss, rate, clip)
        assert norm is not None  # it was clipped
        return torch.stack((loss.detach(), predicted_q, target.mean(), norm))

    def _loss(self, obs: Tensor, action: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The loss, and the mean max-Q of the predict forward."""
        output = self.forward("predict", obs)
        if self.histogram is None:
            chosen = output.gather(1, action[:, None]).squeeze(1)
            loss = 0.5 * (chosen - target).square().mean()
        else:
            chosen = of_action(output, action)  # [B, bins]
            loss = cross_entropy(self.histogram.encode(target), chosen).mean()
        return loss, self.q_values(output.detach()).amax(-1).mean()

    def q_values(self, output: Tensor) -> Float[Tensor, "B actions"]:
        return output if self.histogram is None else self.histogram.decode(output.softmax(-1))

    @property
    def epsilon(self) -> float:
        return linear_epsilon(self.settings, self.updates / self.total_updates)

    def take_metrics(self) -> dict[str, float]:
        rates = {"epsilon": self.epsilon, "learning_rate": self.settings.learning_rate}
        return self.means.take() | rates | {"updates": float(self.updates)}

    def diagnose(self, obs: np.ndarray, rng: np.random.Generator) -> Row:
        if not self.optimizer.has_stepped:
            return {}
        samples, size = samples_needed(self.networks["online"].head), self.settings.minibatch_size
        batches = rollout_batches(self.rollout, size, obs, samples, rng)
        return self.measured(batches, self.optimizer, rng)

    def state(self) -> dict[str, Any]:
        return {
            "decisions": self.decisions,
            "updates": self.updates,
            "rollout": self.rollout.state(),
            "networks": {name: dict(net.state_dict()) for name, net in self.networks.items()},
            "optimizer": self.optimizer.state(),
            "action_stream": self.action_stream.bit_generator.state,
            "shuffle_stream": self.shuffle_stream.bit_generator.state,
            "moment_stream": self.moment_stream.bit_generator.state,
            "means": self.means.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        self.decisions, self.updates = state["decisions"], state["updates"]
        self.rollout.load_state(state["rollout"])
        self.load_networks(state["networks"])
        self.optimizer.load_state(state["optimizer"])
        self.action_stream.bit_generator.state = state["action_stream"]
        self.shuffle_stream.bit_generator.state = state["shuffle_stream"]
        self.moment_stream.bit_generator.state = state["moment_stream"]
        self.means.load_state(state["means"])

    def load_networks(self, networks: dict[str, Any]) -> None:
        self.networks["online"].load_state_dict(networks["online"])


PQN = AgentKind(
    name="pqn",
    summary="PQN, a value learner on parallel rollouts without a target network",
    settings=PQNSettings,
    arms=ARMS,
    default_arm="bn-batch",
    build=PQNAgent,
    suites=PQN_SUITES,
    revision=3,
)
