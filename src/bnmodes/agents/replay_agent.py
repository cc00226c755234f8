"""What agents with a replay share: its filling, the schedule of updates, counters and state."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bnmodes.agents.settings import ReplaySettings
from bnmodes.agents.shared import Means
from bnmodes.envs.contract import EnvSpec, Observations, Step
from bnmodes.execution import Execution
from bnmodes.learning.optimizer import Optimizer
from bnmodes.norm.layers import ModedModule
from bnmodes.replay.ring import Batch, Replay
from bnmodes.streams import numpy_stream


class ReplayAgent:
    """A subclass gives `networks`, `optimizers` and the names of its metrics, and writes
    `update_on(batch)` and the acting."""

    settings: ReplaySettings
    networks: dict[str, Any]

    def __init__(
        self,
        settings: ReplaySettings,
        env: EnvSpec,
        seed: int,
        total_decisions: int,
        execution: Execution,
        *,
        networks: Mapping[str, ModedModule],
        optimizers: dict[str, Optimizer],
        metrics: tuple[str, ...],
    ):
        self.settings = settings
        self.execution = execution
        self.num_actions = env.num_actions
        self.seed = seed
        self.total_decisions = total_decisions
        self.decisions = 0
        self.updates = 0
        self.networks, self.optimizers = dict(networks), optimizers
        self.means = Means(metrics, execution.device)
        self.replay = Replay(env, settings.num_envs, settings.replay_capacity, execution)
        self.action_stream = numpy_stream(seed, "exploration")
        self.replay_stream = numpy_stream(seed, "replay")

    def begin(self, obs: Observations) -> None:
        self.replay.begin(obs)

    def observe(self, actions: np.ndarray, step: Step) -> None:
        self.replay.add(actions, self.learnt_reward(step.reward), step)
        self.decisions += len(actions)

    def learnt_reward(self, reward: np.ndarray) -> np.ndarray:
        """What is stored in the replay for a raw reward."""
        return reward

    def learn(self) -> None:
        now, before = self.decisions, self.decisions - self.settings.num_envs
        if now <= self.settings.learning_starts_decisions:
            return
        if due := self.updates_by(now) - self.updates_by(before):
            self.make_updates(due)

    def updates_by(self, decision: int) -> int:
        """Updates that are due by this decision, if they were due from the first one on."""
        # The small term keeps 10 × 0.1 from falling to 0.999….
        return math.floor(decision * self.settings.updates_per_decision + 1e-6)

    def make_updates(self, count: int) -> None:
        """Their minibatches are drawn, and brought to the device, together."""
        size = self.settings.batch_size
        for batch in self.replay.sample(count * size, self.replay_stream).split(size):
            self.update_on(batch)

    def update_on(self, batch: Batch) -> None:
        """One update."""
        raise NotImplementedError

    def linear_learning_rate(
        self, start: float, end_fraction: float, steps: int | None = None
    ) -> float:
        """From `start` at the first update to `end_fraction` of it at the run's last one.

        An optimizer that steps less often, and whose rate falls with its own steps, gives them."""
        steps = self.updates if steps is None else steps
        first = self.updates_by(self.settings.learning_starts_decisions)
        # Several environments may overshoot the last decision by a few updates.
        done = min(1.0, steps / max(1, self.updates_by(self.total_decisions) - first))
        return start * (1 - done * (1 - end_fraction))

    def take_metrics(self) -> dict[str, float]:
        return self.means.take() | {"updates": float(self.updates)}

    def state(self) -> dict[str, Any]:
        return {
            "decisions": self.decisions,
            "updates": self.updates,
            "networks": {name: dict(net.state_dict()) for name, net in self.networks.items()},
            "optimizers": {name: o.state() for name, o in self.optimizers.items()},
            "learning_rates": {name: o.learning_rate for name, o in self.optimizers.items()},
            "replay": self.replay.state(),
            "action_stream": self.action_stream.bit_generator.state,
            "replay_stream": self.replay_stream.bit_generator.state,
            "means": self.means.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        self.decisions, self.updates = state["decisions"], state["updates"]
        self.load_networks(state["networks"])
        for name, optimizer in self.optimizers.items():
            optimizer.load_state(state["optimizers"][name])
            # Each update sets its own; until then it is the last update's, for diagnostics.
            optimizer.learning_rate = state["learning_rates"][name]
        self.replay.load_state(state["replay"])
        self.action_stream.bit_generator.state = state["action_stream"]
        self.replay_stream.bit_generator.state = state["replay_stream"]
        self.means.load_state(state["means"])

    def load_networks(self, networks: dict[str, Any]) -> None:
        for name, network in self.networks.items():
            network.load_state_dict(networks[name])
