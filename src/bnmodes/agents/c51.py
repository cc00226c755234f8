"""C51: a categorical value learner with replay and a target network that is copied hard."""

import math
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from bnmodes.agents.base import (
    Means,
    forward_as,
    linear_epsilon,
    never_learns_note,
    of_action,
    require_above_zero,
    require_between,
    require_finite,
)
from bnmodes.agents.diagnostic_rows import replay_batches
from bnmodes.diagnostics import Row, measure, rows_needed
from bnmodes.envs.base import EnvSpec, Step
from bnmodes.errors import UsageError
from bnmodes.execution import PLAIN, Execution
from bnmodes.networks import NormConfig, QNetwork
from bnmodes.optimizer import Optimizer
from bnmodes.projection import Projection, ProjectionConfig
from bnmodes.protocol import Mode, Protocol, Setting, alpha, preset
from bnmodes.replay import Batch, Replay
from bnmodes.streams import numpy_stream, torch_stream
from bnmodes.targets import categorical_projection, cross_entropy


@dataclass(frozen=True)
class C51Config:
    """Every setting of the agent. The defaults are the paper's for Atari."""

    protocol: Protocol = field(default_factory=lambda: preset("c51/none"))
    """Parameters, rows, statistics and writes of each forward."""
    norm: NormConfig = NormConfig()
    """The normalisation before every ReLU."""
    projection: ProjectionConfig = ProjectionConfig()
    """The fixed-norm projection of kernels after every optimizer step."""
    torso: Literal["nature", "minatar"] = "nature"
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


ARMS = ("none", "ln", "bn-running", "bn-batch", "bn-tracked", "ln-wn", "bn-wn")


def c51_config(
    arm: str, env_family: str, tracking_alpha: float | str = 0.01, online_alpha: float = 0.01
) -> C51Config:
    """The configuration of one of the paper's arms, for a family of games."""
    if arm not in ARMS:
        raise UsageError(f"arm '{arm}' is unknown: choose one of {', '.join(ARMS)}.")
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

    def _update(self, batch: Batch, learning_rate: Tensor) -> Float[Tensor, "3"]:
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
