"""What TD3, XQC and MR.Q share: settings, protocols, twin critics, a policy on the critic's
features, and the agent around the updates.

The policy is a Gumbel-Softmax one (Jang, Gu, Poole: "Categorical Reparameterization with
Gumbel-Softmax", ICLR 2017, arXiv:1611.01144): its relaxed action is differentiable, and the action
that is executed or bootstrapped from is the one-hot vector of its largest entry after noise.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from bnmodes.agents.actor_critic_diagnostics import diagnose
from bnmodes.agents.actor_critic_roles import Transitions, UpdateRows
from bnmodes.agents.replay_agent import ReplayAgent
from bnmodes.agents.settings import ReplaySettings
from bnmodes.agents.shared import forward_as
from bnmodes.bounds import Count, NotNegative, Positive, Whole
from bnmodes.diagnostics import Row
from bnmodes.envs.contract import EnvSpec
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
from bnmodes.protocol import AgentCapabilities, Forward, Mode, Params, Protocol, Role
from bnmodes.streams import torch_stream


@dataclass(frozen=True)
class ActorCriticSettings(ReplaySettings):
    """The settings that TD3, XQC and MR.Q share; the defaults are the study's for Atari."""

    batch_size: Count = 256
    """Transitions in a minibatch (number)."""
    learning_starts_decisions: Whole = 10_000
    """Decisions taken at random before the first update."""
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
        obs, next_obs = {"replay-obs": self.batch_size}, {"replay-next-obs": self.batch_size}
        joined = {"joined": 2 * self.batch_size} if self.has_batchnorm else {}
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


class ActorCritic(ReplayAgent):
    """The agent around the updates: acting, replay, counters and state.

    A subclass builds the networks, on the device, and the optimizers; it writes `update_on` and the
    two parts of it that are compiled. A policy reads the features of the critic's encoder; only the
    critic's loss trains that one. All noise is drawn on the host: it is the same whatever the
    device.
    """

    def __init__(
        self,
        settings: ActorCriticSettings,
        env: EnvSpec,
        seed: int,
        total_decisions: int,
        critics: dict[Params, Critic],
        actors: dict[Params, ModedModule],
        optimizers: dict[str, Optimizer],
        execution: Execution,
    ):
        networks = {f"{params}_critic": critic for params, critic in critics.items()}
        networks |= {f"{params}_actor": actor for params, actor in actors.items()}
        super().__init__(
            settings,
            env,
            seed,
            total_decisions,
            execution,
            networks=networks,
            optimizers=optimizers,
            metrics=("loss", "predict_q", "bootstrap_q"),
        )
        self.critics, self.actors = critics, actors
        self.encoders = {params: critic.encoder for params, critic in critics.items()}
        self.heads = {params: critic.heads for params, critic in critics.items()}
        self.critic_update = execution.compiled(self._critic_update)
        self.policy_update = execution.compiled(self._policy_update)
        self.policy_stream = torch_stream(seed, "policy")
        self._evaluation_stream: tuple[int, torch.Generator] | None = None

    @torch.no_grad()
    def act(self, obs: np.ndarray) -> np.ndarray:
        if self.decisions < self.settings.learning_starts_decisions:
            return self.action_stream.integers(self.num_actions, size=len(obs))
        logits = self._logits("act", self.execution.to_device(torch.from_numpy(obs)))
        relaxed = self._relaxed(logits, self._gumbel(len(obs)))
        action = noisy_action(relaxed, self._gaussian(len(obs)), self.settings.exploration_noise)
        return action.cpu().numpy()

    @torch.no_grad()
    def greedy(self, obs: np.ndarray) -> np.ndarray:
        logits = self._logits("evaluate", self.execution.to_device(torch.from_numpy(obs)))
        if self.settings.evaluate_sampled:
            gumbel = gumbel_noise(tuple(logits.shape), self._evaluation_generator())
            logits = self._relaxed(logits, self.execution.to_device(gumbel))
        return logits.argmax(-1).cpu().numpy()

    def _evaluation_generator(self) -> torch.Generator:
        """Begun anew at each evaluation, so that it depends on nothing but the decision."""
        if self._evaluation_stream is None or self._evaluation_stream[0] != self.decisions:
            stream = torch_stream(self.seed, f"evaluation policy {self.decisions}")
            self._evaluation_stream = (self.decisions, stream)
        return self._evaluation_stream[1]

    def _critic_update(self, *rows_and_noise: Any) -> Any:
        """The loss, the mean predicted and the mean bootstrapped Q, and what the agent needs."""
        raise NotImplementedError

    def _policy_update(self, obs: Tensor, gumbel: Tensor, *rates: float | Tensor) -> None:
        """Of the policy alone: the critics only judge."""
        raise NotImplementedError

    def _logits(self, role: Role, obs: Tensor) -> Float[Tensor, "B actions"]:
        features = forward_as(role, self.settings.protocol, self.encoders, obs)
        return forward_as(role, self.settings.protocol, self.actors, features)

    def _relaxed(self, logits: Tensor, gumbel: Tensor) -> Float[Tensor, "B actions"]:
        return gumbel_softmax(logits, self.settings.temperature, gumbel)

    def _gumbel(self, rows: int) -> Float[Tensor, "rows actions"]:
        return self.execution.to_device(gumbel_noise((rows, self.num_actions), self.policy_stream))

    def _gaussian(self, rows: int) -> Float[Tensor, "rows actions"]:
        return self.execution.to_device(
            gaussian_noise((rows, self.num_actions), self.policy_stream)
        )

    def _bootstrap_noise(self) -> tuple[Tensor, Tensor]:
        """For the next action: the policy's own, and what is added to it."""
        return self._gumbel(self.settings.batch_size), self._gaussian(self.settings.batch_size)

    def _next_action(
        self, next_obs: Tensor, noise: tuple[Tensor, Tensor]
    ) -> Float[Tensor, "B actions"]:
        """One-hot, by the bootstrap's policy with its clipped noise."""
        gumbel, gaussian = noise
        relaxed = self._relaxed(self._logits("bootstrap_actor", next_obs), gumbel)
        settings = self.settings
        action = noisy_action(relaxed, gaussian, settings.target_noise, settings.target_noise_clip)
        return one_hot(action, self.num_actions)

    def _critic(
        self, role: Role, now: StateAction, following: StateAction
    ) -> Float[Tensor, "2 B outputs"]:
        return critic_as(role, self.settings.protocol, self.critics, now, following)

    def _judged_policy(
        self, obs: Tensor, gumbel: Tensor
    ) -> tuple[Tensor, Float[Tensor, "B actions"]]:
        """What the critics say of the policy's relaxed actions, [2, B, outputs], and its logits."""
        protocol = self.settings.protocol
        with torch.no_grad():
            features = forward_as("improve_critic", protocol, self.encoders, obs)
        logits = forward_as("improve", protocol, self.actors, features)
        rows = (features, self._relaxed(logits, gumbel))
        return forward_as("improve_critic", protocol, self.heads, rows), logits

    def role_output(self, role: Role, rows: UpdateRows) -> Float[Tensor, "B ..."]:
        """What the role's own forward gives, rows first; as declared, so it may write."""
        protocol = self.settings.protocol
        if role in ("predict", "bootstrap"):
            return self._critic(role, rows.now, rows.following).movedim(1, 0)
        if role == "improve":
            return forward_as(role, protocol, self.actors, rows.features)
        if role == "improve_critic":
            features = forward_as(role, protocol, self.encoders, rows.obs)
            return forward_as(role, protocol, self.heads, (features, rows.relaxed)).movedim(1, 0)
        return self._logits(role, rows.next_obs if role == "bootstrap_actor" else rows.obs)

    def diagnose(self, obs: np.ndarray, rng: np.random.Generator) -> Row:
        return diagnose(self, rng)

    def transitions(self, count: int, rng: np.random.Generator) -> Transitions:
        """Observation, action and successor, drawn as an update draws them."""
        drawn = self.replay.sample(count, rng)
        return drawn.obs, drawn.action, drawn.next_obs

    def q_values(self, output: Float[Tensor, "*rows outputs"]) -> Float[Tensor, "*rows"]:
        """What a critic's output is worth."""
        return output.squeeze(-1)

    def state(self) -> dict[str, Any]:
        return super().state() | {"policy_stream": self.policy_stream.get_state()}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.policy_stream.set_state(state["policy_stream"])
        self._evaluation_stream = None
