"""What TD3, XQC, CrossQ and MR.Q share: twin critics, a policy on the critic's features, the
forward of each role, and the agent around the updates.

The policy is a Gumbel-Softmax one (Jang, Gu, Poole: "Categorical Reparameterization with
Gumbel-Softmax", ICLR 2017, arXiv:1611.01144): its relaxed action is differentiable, and the action
that is executed or bootstrapped from is the one-hot vector of its largest entry after noise.
"""

import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from bnmodes.agents.joined_batch import critic_as, joined
from bnmodes.agents.replay_agent import ReplayAgent
from bnmodes.agents.settings import ActorCriticSettings
from bnmodes.agents.shared import forward_as
from bnmodes.diagnostics import (
    ActionLogits,
    RoleForward,
    Row,
    Transitions,
    ValuesOfRows,
    halves_mismatch,
    mean_best_q,
    measure_layers,
    measure_roles,
    newest_acting_batches,
    passes,
    rounded,
    samples_needed,
)
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
from bnmodes.networks.actor_critic import Critic, DenseNetwork, Policy, StateAction
from bnmodes.norm.layers import ModedModule
from bnmodes.protocol import BATCH, Mode, Params, Role
from bnmodes.streams import torch_stream


@dataclass(frozen=True)
class UpdateInputs:
    """What the forwards of one update are given."""

    current: StateAction
    """Observations, and the actions of the replay, one-hot."""
    next_pair: StateAction
    """Next observations, and the actions of the bootstrap's policy there, one-hot."""
    features: Float[Tensor, "B units"]
    """What the policy reads in its own loss: the critic's features of the observations."""
    relaxed: Float[Tensor, "B actions"]
    """The actions that the policy proposes in its own loss."""


class ActorCritic(ReplayAgent):
    """The agent around the updates: acting, replay, counters and state.

    A subclass builds the networks, on the device, and the optimizers; it writes `update_on` and the
    two parts of it that are compiled. A policy reads the features of the critic's encoder; only the
    critic's loss trains that one. All noise is drawn on the host: it is the same whatever the
    device.
    """

    settings: ActorCriticSettings

    def __init__(
        self,
        settings: ActorCriticSettings,
        env: EnvSpec,
        seed: int,
        total_decisions: int,
        critics: dict[Params, Critic],
        actors: dict[Params, DenseNetwork],
        optimizers: dict[str, Optimizer],
        execution: Execution,
    ):
        networks: dict[str, ModedModule] = {f"{p}_critic": critics[p] for p in critics}
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
        self.heads: dict[Params, Any] = {params: critic.heads for params, critic in critics.items()}
        self.policies = {p: Policy(self.encoders[p], actor) for p, actor in actors.items()}
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

    def _critic_update(self, *batch_and_noise: Any) -> Any:
        """One step of the critics; returns loss, mean predicted Q and mean bootstrapped Q, and
        whatever else the subclass needs."""
        raise NotImplementedError

    def _policy_update(self, *obs_and_noise: Any) -> None:
        """One step of the policy; the critics only judge its actions."""
        raise NotImplementedError

    def _logits(self, role: Role, obs: Tensor) -> Float[Tensor, "B actions"]:
        return forward_as(role, self.settings.protocol, self.policies, obs)

    def _relaxed(self, logits: Tensor, gumbel: Tensor) -> Float[Tensor, "B actions"]:
        return gumbel_softmax(logits, self.settings.temperature, gumbel)

    def _gumbel(self, size: int) -> Float[Tensor, "size actions"]:
        return self.execution.to_device(gumbel_noise((size, self.num_actions), self.policy_stream))

    def _gaussian(self, size: int) -> Float[Tensor, "size actions"]:
        return self.execution.to_device(
            gaussian_noise((size, self.num_actions), self.policy_stream)
        )

    def _bootstrap_noise(self) -> tuple[Tensor, Tensor]:
        """For the next action: the Gumbel noise of the policy, and the Gaussian one added to it."""
        return self._gumbel(self.settings.batch_size), self._gaussian(self.settings.batch_size)

    def _next_action(
        self, next_obs: Tensor, noise: tuple[Tensor, Tensor]
    ) -> Float[Tensor, "B actions"]:
        """The one-hot action of the bootstrap's policy, with its clipped noise."""
        return self._noisy_one_hot(self._logits("bootstrap_actor", next_obs), *noise)

    def _noisy_one_hot(
        self, logits: Tensor, gumbel: Tensor, gaussian: Tensor
    ) -> Float[Tensor, "B actions"]:
        settings, relaxed = self.settings, self._relaxed(logits, gumbel)
        action = noisy_action(relaxed, gaussian, settings.target_noise, settings.target_noise_clip)
        return one_hot(action, self.num_actions)

    def _critic(
        self, role: Role, current: StateAction, next_pair: StateAction
    ) -> Float[Tensor, "2 B outputs"]:
        return critic_as(role, self.settings.protocol, self.critics, current, next_pair)

    def _judged_policy(
        self, obs: Tensor, gumbel: Tensor
    ) -> tuple[Float[Tensor, "2 B outputs"], Float[Tensor, "B actions"]]:
        """The critics' outputs for the policy's relaxed actions, and the policy's logits."""
        with torch.no_grad():
            features = self._features_for_policy(obs)
        logits = forward_as("improve", self.settings.protocol, self.actors, features)
        return self._judge(features, self._relaxed(logits, gumbel)), logits

    def _features_for_policy(self, obs: Tensor) -> Float[Tensor, "B units"]:
        return forward_as("improve_critic", self.settings.protocol, self.encoders, obs)

    def _judge(self, features: Tensor, action: Tensor) -> Float[Tensor, "2 B outputs"]:
        return forward_as("improve_critic", self.settings.protocol, self.heads, (features, action))

    def role_forwards(
        self, transitions: Transitions, rng: torch.Generator
    ) -> dict[Role, RoleForward]:
        """See `agents.agent.DeclaresRoles`; `rng` draws the policy's noise."""
        return self._forwards_of(self._update_inputs(transitions, rng))

    @torch.no_grad()
    def _update_inputs(self, transitions: Transitions, rng: torch.Generator) -> UpdateInputs:
        """What an update on these transitions would give its forwards; nothing is written."""
        obs, action, next_obs = transitions
        protocol, shape = self.settings.protocol, (len(obs), self.num_actions)

        def unwritten(role: Role, networks: Mapping[Any, ModedModule], x: Tensor) -> Tensor:
            forward = protocol.forward(role)
            network = networks[forward.params]
            return (deepcopy(network) if forward.writes else network)(x, forward)

        next_features = unwritten("bootstrap_actor", self.encoders, next_obs)
        next_logits = unwritten("bootstrap_actor", self.actors, next_features)
        noise = [draw(shape, rng).to(obs.device) for draw in (gumbel_noise, gaussian_noise)]
        next_action = self._noisy_one_hot(next_logits, *noise)
        features = unwritten("improve_critic", self.encoders, obs)
        logits = unwritten("improve", self.actors, features)
        relaxed = self._relaxed(logits, gumbel_noise(shape, rng).to(obs.device))
        current = (obs, one_hot(action, self.num_actions))
        return UpdateInputs(current, (next_obs, next_action), features, relaxed)

    def _forwards_of(self, inputs: UpdateInputs) -> dict[Role, RoleForward]:
        protocol = self.settings.protocol
        (obs, _), (next_obs, _) = inputs.current, inputs.next_pair

        def critic(role: Role, pair: StateAction) -> RoleForward:
            declared, kept = getattr(protocol, role), slice(None)
            if declared.population == "joined":
                pair = joined(inputs.current, inputs.next_pair)
                kept = slice(len(obs), None) if role == "bootstrap" else slice(0, len(obs))
            return RoleForward(
                mode=declared,
                run=partial(forward_as, role, protocol, self.critics),
                inputs=pair,
                networks=(f"{declared.params}_critic",),
                network=self.critics[declared.params],
                readout=ValuesOfRows(self.q_values),
                kept=kept,
                head="critic1_head",
                batch_axis=1,
            )

        def policy(role: Role, obs: Tensor) -> RoleForward:
            declared = getattr(protocol, role)
            return RoleForward(
                mode=declared,
                run=partial(self._logits, role),
                inputs=obs,
                networks=(f"{declared.params}_critic", f"{declared.params}_actor"),
                network=self.policies[declared.params],
                readout=ActionLogits(),
            )

        improving = protocol.forward("improve")
        improve = RoleForward(
            mode=improving,
            run=partial(forward_as, "improve", protocol, self.actors),
            inputs=inputs.features,
            networks=(f"{improving.params}_actor",),
            network=self.actors[improving.params],
            readout=ActionLogits(),
        )
        judging = critic("improve_critic", (obs, inputs.relaxed))
        return {
            "predict": critic("predict", inputs.current),
            "bootstrap": critic("bootstrap", inputs.next_pair),
            "act": policy("act", obs),
            "evaluate": policy("evaluate", obs),
            "improve": improve,
            "improve_critic": replace(
                judging, run=lambda pair: self._judge(self._features_for_policy(pair[0]), pair[1])
            ),
            "bootstrap_actor": policy("bootstrap_actor", next_obs),
        }

    @torch.no_grad()
    def diagnose(self, obs: np.ndarray, rng: np.random.Generator) -> Row:
        """Empty until critics and policy have both been updated."""
        optimizers, protocol = list(self.optimizers.values()), self.settings.protocol
        if not all(optimizer.has_stepped for optimizer in optimizers):
            return {}
        critic, size = self.critics["online"], self.settings.batch_size
        minibatches = math.ceil(samples_needed(self.heads["online"].twins[0].head) / size)
        drawn = self.transitions(minibatches * size, rng)
        noise = torch.Generator().manual_seed(int(rng.integers(2**63 - 1)))
        batches = [self._update_inputs(part, noise) for part in drawn.split(size)]
        forwards = [self._forwards_of(inputs) for inputs in batches]
        roles: dict[Role, list[RoleForward]]
        roles = {role: [f[role] for f in forwards] for role in forwards[0] if role != "evaluate"}
        acting = newest_acting_batches(self.replay, minibatches, size, rng)
        roles["act"] = [forwards[0]["act"].on(obs) for obs in acting]
        row = measure_roles(roles, rng)
        if self.settings.has_batchnorm:
            together = replace(forwards[0]["predict"], mode=BATCH, kept=slice(None))
            pairs = [joined(inputs.current, inputs.next_pair) for inputs in batches]
            row |= halves_mismatch(passes([together.on(pair) for pair in pairs]), rng)
        judge = protocol.forward("improve_critic")
        features = [inputs.features for inputs in batches]
        row["improve_critic/max_q"] = mean_best_q(
            self.heads[judge.params],
            Mode(statistics=judge.statistics),
            features,
            self.num_actions,
            self.q_values,
        )
        return rounded(row | measure_layers([critic, self.actors["online"]], optimizers))

    def transitions(self, count: int, rng: np.random.Generator) -> Transitions:
        """Transitions drawn as an update draws them."""
        drawn = self.replay.sample(count, rng)
        return Transitions(drawn.obs, drawn.action, drawn.next_obs)

    def q_values(self, output: Float[Tensor, "*rows outputs"]) -> Float[Tensor, "*rows"]:
        """Q, from a critic's output."""
        return output.squeeze(-1)

    def state(self) -> dict[str, Any]:
        return super().state() | {"policy_stream": self.policy_stream.get_state()}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.policy_stream.set_state(state["policy_stream"])

    def load_networks(self, networks: dict[str, Any]) -> None:
        super().load_networks(networks)
        self._evaluation_stream = None
