"""What TD3, XQC and MR.Q share: twin critics on rows of a declared population, a policy on the
critic's features, and the agent around the updates."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from bnmodes.agents.actor_critic_config import ActorCriticConfig
from bnmodes.agents.actor_critic_diagnostics import diagnose
from bnmodes.agents.actor_critic_roles import Transitions, UpdateRows
from bnmodes.agents.agent import Means, forward_as
from bnmodes.diagnostics import Row
from bnmodes.envs.contract import EnvSpec, Step
from bnmodes.execution import Execution
from bnmodes.learning.optimizer import Optimizer
from bnmodes.learning.relaxed_actions import (
    gaussian_noise,
    gumbel_noise,
    gumbel_softmax,
    noisy_action,
    one_hot,
)
from bnmodes.networks.actor_critic import Critic
from bnmodes.norm.layers import ModedModule
from bnmodes.protocol import Params, Protocol, Role
from bnmodes.replay.ring import Batch, Replay
from bnmodes.streams import numpy_stream, torch_stream

StateAction = tuple[Tensor, Tensor]


def critic_as(
    role: Role,
    protocol: Protocol,
    critics: Mapping[Params, Critic],
    now: StateAction,
    following: StateAction,
) -> Float[Tensor, "2 B outputs"]:
    """Of (s, a) to predict, of (s′, a′) to bootstrap, within the rows that the role declares.

    In the joined population [s; s′] × [a; a′] go through as one batch of 2B rows, and the role
    keeps its half: both halves are normalised by the moments of both.
    """
    own = following if role == "bootstrap" else now
    if getattr(protocol, role).population != "joined":
        return forward_as(role, protocol, critics, own)
    both = tuple(torch.cat(parts) for parts in zip(now, following, strict=True))
    first, second = forward_as(role, protocol, critics, both).chunk(2, dim=1)
    return second if role == "bootstrap" else first


@torch.no_grad()
def move_towards(target: Iterable[Tensor], online: Iterable[Tensor], weight: float) -> None:
    """Polyak averaging: target ← (1 − weight)·target + weight·online."""
    torch._foreach_lerp_(list(target), list(online), weight)


class ActorCritic:
    """The agent around the updates: acting, replay, counters and state.

    A subclass builds the networks, on the device, and the optimizers; it writes `_update` and the
    two parts of it that are compiled. A policy reads the features of the critic's encoder; only the
    critic's loss trains that one. All noise is drawn on the host: it is the same whatever the
    device.
    """

    def __init__(
        self,
        config: ActorCriticConfig,
        env: EnvSpec,
        seed: int,
        total_decisions: int,
        critics: dict[Params, Critic],
        actors: dict[Params, ModedModule],
        optimizers: dict[str, Optimizer],
        metrics: tuple[str, ...],
        execution: Execution,
    ):
        self.config = config
        self.execution = execution
        self.num_actions = env.num_actions
        self.seed = seed
        self.total_decisions = total_decisions
        self.decisions = 0
        self.updates = 0
        self.critics, self.actors = critics, actors
        self.encoders = {params: critic.encoder for params, critic in critics.items()}
        self.heads = {params: critic.heads for params, critic in critics.items()}
        self.networks = {f"{params}_critic": critic for params, critic in critics.items()}
        self.networks |= {f"{params}_actor": actor for params, actor in actors.items()}
        self.optimizers = optimizers
        self.critic_update = execution.compiled(self._critic_update)
        self.policy_update = execution.compiled(self._policy_update)
        self.means = Means(metrics, execution.device)
        self.replay = Replay(env, config.num_envs, config.replay_capacity, execution)
        self.action_stream = numpy_stream(seed, "exploration")
        self.replay_stream = numpy_stream(seed, "replay")
        self.policy_stream = torch_stream(seed, "policy")
        self._evaluation_stream: tuple[int, torch.Generator] | None = None

    def begin(self, obs: np.ndarray) -> None:
        self.replay.begin(obs)

    @torch.no_grad()
    def act(self, obs: np.ndarray) -> np.ndarray:
        if self.decisions < self.config.learning_starts_decisions:
            return self.action_stream.integers(self.num_actions, size=len(obs))
        logits = self._logits("act", self.execution.to_device(torch.from_numpy(obs)))
        relaxed = self._relaxed(logits, self._gumbel(len(obs)))
        action = noisy_action(relaxed, self._gaussian(len(obs)), self.config.exploration_noise)
        return action.cpu().numpy()

    @torch.no_grad()
    def greedy(self, obs: np.ndarray) -> np.ndarray:
        logits = self._logits("evaluate", self.execution.to_device(torch.from_numpy(obs)))
        if self.config.evaluate_sampled:
            gumbel = gumbel_noise(tuple(logits.shape), self._evaluation_generator())
            logits = self._relaxed(logits, self.execution.to_device(gumbel))
        return logits.argmax(-1).cpu().numpy()

    def _evaluation_generator(self) -> torch.Generator:
        """Begun anew at each evaluation, so that it depends on nothing but the decision."""
        if self._evaluation_stream is None or self._evaluation_stream[0] != self.decisions:
            stream = torch_stream(self.seed, f"evaluation policy {self.decisions}")
            self._evaluation_stream = (self.decisions, stream)
        return self._evaluation_stream[1]

    def observe(self, actions: np.ndarray, step: Step) -> None:
        self.replay.add(actions, step.reward, step)
        self.decisions += len(actions)

    def learn(self) -> None:
        now, before = self.decisions, self.decisions - self.config.num_envs
        if now <= self.config.learning_starts_decisions:
            return
        if due := self._updates_by(now) - self._updates_by(before):
            self._updates(due)

    def _updates_by(self, decision: int) -> int:
        return math.floor(decision * self.config.updates_per_decision + 1e-6)

    def _updates(self, count: int) -> None:
        """Their minibatches are drawn, and brought to the device, in one go."""
        size = self.config.batch_size
        for batch in self.replay.sample(count * size, self.replay_stream).split(size):
            self._update(batch)

    def _update(self, batch: Batch) -> None:
        raise NotImplementedError

    def _critic_update(self, *rows_and_noise: Any) -> Any:
        """The loss, the mean predicted and the mean bootstrapped Q, and what the agent needs."""
        raise NotImplementedError

    def _policy_update(self, obs: Tensor, gumbel: Tensor, *rates: float | Tensor) -> None:
        """Of the policy alone: the critics only judge."""
        raise NotImplementedError

    def _logits(self, role: Role, obs: Tensor) -> Float[Tensor, "B actions"]:
        features = forward_as(role, self.config.protocol, self.encoders, obs)
        return forward_as(role, self.config.protocol, self.actors, features)

    def _relaxed(self, logits: Tensor, gumbel: Tensor) -> Float[Tensor, "B actions"]:
        return gumbel_softmax(logits, self.config.temperature, gumbel)

    def _gumbel(self, rows: int) -> Float[Tensor, "rows actions"]:
        return self.execution.to_device(gumbel_noise((rows, self.num_actions), self.policy_stream))

    def _gaussian(self, rows: int) -> Float[Tensor, "rows actions"]:
        return self.execution.to_device(
            gaussian_noise((rows, self.num_actions), self.policy_stream)
        )

    def _bootstrap_noise(self) -> tuple[Tensor, Tensor]:
        """For the next action: the policy's own, and what is added to it."""
        return self._gumbel(self.config.batch_size), self._gaussian(self.config.batch_size)

    def _next_action(
        self, next_obs: Tensor, noise: tuple[Tensor, Tensor]
    ) -> Float[Tensor, "B actions"]:
        """One-hot, by the bootstrap's policy with its clipped noise."""
        gumbel, gaussian = noise
        relaxed = self._relaxed(self._logits("bootstrap_actor", next_obs), gumbel)
        config = self.config
        action = noisy_action(relaxed, gaussian, config.target_noise, config.target_noise_clip)
        return one_hot(action, self.num_actions)

    def _critic(
        self, role: Role, now: StateAction, following: StateAction
    ) -> Float[Tensor, "2 B outputs"]:
        return critic_as(role, self.config.protocol, self.critics, now, following)

    def _judged_policy(
        self, obs: Tensor, gumbel: Tensor
    ) -> tuple[Tensor, Float[Tensor, "B actions"]]:
        """What the critics say of the policy's relaxed actions, [2, B, outputs], and its logits."""
        protocol = self.config.protocol
        with torch.no_grad():
            features = forward_as("improve_critic", protocol, self.encoders, obs)
        logits = forward_as("improve", protocol, self.actors, features)
        rows = (features, self._relaxed(logits, gumbel))
        return forward_as("improve_critic", protocol, self.heads, rows), logits

    def role_output(self, role: Role, rows: UpdateRows) -> Float[Tensor, "B ..."]:
        """What the role's own forward gives, rows first; as declared, so it may write."""
        protocol = self.config.protocol
        if role in ("predict", "bootstrap"):
            return self._critic(role, rows.now, rows.following).movedim(1, 0)
        if role == "improve":
            return forward_as(role, protocol, self.actors, rows.features)
        if role == "improve_critic":
            features = forward_as(role, protocol, self.encoders, rows.obs)
            return forward_as(role, protocol, self.heads, (features, rows.relaxed)).movedim(1, 0)
        return self._logits(role, rows.next_obs if role == "bootstrap_actor" else rows.obs)

    def take_metrics(self) -> dict[str, float]:
        return self.means.take() | {"updates": float(self.updates)}

    def diagnose(self, obs: np.ndarray, rng: np.random.Generator) -> Row:
        return diagnose(self, rng)

    def transitions(self, count: int, rng: np.random.Generator) -> Transitions:
        """Observation, action and next observation, drawn as an update draws them."""
        drawn = self.replay.sample(count, rng)
        return drawn.obs, drawn.action, drawn.next_obs

    def q_values(self, output: Float[Tensor, "*rows outputs"]) -> Float[Tensor, "*rows"]:
        """What a critic's output is worth."""
        return output.squeeze(-1)

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
            "policy_stream": self.policy_stream.get_state(),
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
        self.policy_stream.set_state(state["policy_stream"])
        self.means.load_state(state["means"])
        self._evaluation_stream = None

    def load_networks(self, networks: dict[str, Any]) -> None:
        for name, network in self.networks.items():
            network.load_state_dict(networks[name])
