"""MR.Q on discrete actions: model-free values on features that are learnt by modelling.

Fujimoto, D'Oro, Zhang, Tian, Rabbat: "Towards General-Purpose Model-Free Reinforcement Learning",
ICLR 2025, arXiv:2501.16142. Priorities are LAP's (Fujimoto, Meger, Precup: "An Equivalence between
Loss Functions and Non-Uniform Sampling in Experience Replay", NeurIPS 2020, arXiv:2007.06049).
Every 250 updates the targets are copied, and the encoder gets 250 updates of its own: over an
unrolled horizon it learns to predict its next features, the reward and the end of the game. Other
updates send no gradient into it. One of them:
    draw sub-trajectories by priority, pictures randomly shifted
    learning target: 3-step return + γ³ · the smaller target critic at the target policy's action
    both critics: Huber loss, clipped gradient, AdamW step; new priorities from the errors
    the policy follows both critics, with a small penalty on its logits
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from bnmodes.agents.actor_critic import ActorCritic
from bnmodes.agents.agent import AgentKind
from bnmodes.agents.settings import ActorCriticSettings, protocol_without_batchnorm
from bnmodes.agents.shared import Means, forward_as
from bnmodes.agents.suites import MRQ_SUITES
from bnmodes.bounds import Count, NotNegative, Positive, Whole
from bnmodes.diagnostics import RoleForward, Transitions
from bnmodes.diagnostics.role_forward import Inputs
from bnmodes.envs.contract import EnvSpec, Step
from bnmodes.execution import PLAIN, Execution
from bnmodes.learning.optimizer import Optimizer
from bnmodes.learning.relaxed_actions import one_hot
from bnmodes.learning.reward_scale import mean_absolute_reward
from bnmodes.learning.targets import TwoHot, cross_entropy, n_step_return
from bnmodes.networks.layers import initialise
from bnmodes.networks.mrq import Prediction, mrq_networks
from bnmodes.networks.torsos import TorsoName
from bnmodes.protocol import AgentCapabilities, Forward, Mode, Population, Protocol, Role
from bnmodes.replay.priorities import Priorities
from bnmodes.replay.ring import Index
from bnmodes.replay.sequences import Sequences, gather_sequences, shifted
from bnmodes.streams import torch_stream


@dataclass(frozen=True)
class MRQSettings(ActorCriticSettings):
    """Every setting of the agent. The defaults are the study's for Atari."""

    protocol: Protocol = field(default_factory=lambda: mrq_protocol())
    """Parameters, batch, statistics and updates of each forward."""
    torso: TorsoName = "mrq"
    """Hidden layers of the encoder, by name; `auto` chooses by the size of an observation."""
    hidden_units: Count = 512
    """Units of every other hidden layer, and of the embedding of state and action (number)."""
    action_units: Count = 256
    """Units of an action's embedding (number)."""
    target_noise_clip: NotNegative = 0.15
    """Clip range of `target_noise`."""
    return_steps: Count = 3
    """Rewards in a value target before it bootstraps (decisions)."""
    unroll_steps: Count = 5
    """Horizon of the encoder's loss (decisions)."""
    target_period_updates: Count = 250
    """Updates between hard copies to the targets, and encoder updates done then (number)."""
    encoder_learning_rate: Positive = 1e-4
    """AdamW's step size for encoder, embedding and model."""
    value_learning_rate: Positive = 3e-4
    """AdamW's step size for the critics."""
    policy_learning_rate: Positive = 3e-4
    """AdamW's step size for the policy."""
    weight_decay: NotNegative = 1e-4
    """AdamW's weight decay, for all of them."""
    value_gradient_clip: Positive = 20.0
    """Largest global norm of the critics' gradient."""
    dynamics_weight: NotNegative = 1.0
    """Of the next state's embedding in the encoder's loss."""
    reward_weight: NotNegative = 0.1
    """Of the reward in the encoder's loss."""
    terminal_weight: NotNegative = 0.1
    """Of the end of a game in the encoder's loss, once one was seen."""
    logit_penalty: NotNegative = 1e-5
    """Of the mean squared logit in the policy's loss."""
    shift_pixels: Whole = 4
    """Largest random shift of the pictures that are learnt from (pixels)."""

    def memory_bytes(self, env: EnvSpec) -> int:
        return super().memory_bytes(env) + 4 * self.replay_capacity

    def for_timing(self) -> "MRQSettings":
        """With one encoder update at each update, instead of all of them at once."""
        timed: Any = super().for_timing()
        return replace(timed, target_period_updates=1)

    def notes(self) -> list[str]:
        period = self.target_period_updates
        return [
            f"Every {period} updates the targets of encoder, critics and policy get the online "
            f"parameters, and then the encoder {period} updates of its own.",
            "The model forward runs the encoder at the first observation and the embedding "
            f"{self.unroll_steps} times, each fed with its own prediction.",
            "Values are in units of the replay's mean |reward|, measured at each copy.",
        ]

    def capabilities(self, evaluation_rows: int) -> AgentCapabilities:
        offered = super().capabilities(evaluation_rows)
        model: dict[Role, Mapping[Population, int]] = {
            "model": {"replay-obs": self.batch_size},
            "model_target": {"replay-next-obs": self.batch_size * self.unroll_steps},
        }
        return replace(offered, rows={**offered.rows, **model})


def mrq_protocol() -> Protocol:
    """All norms are LayerNorms: no forward uses batch or running statistics."""
    none = Mode(statistics="none")
    return replace(
        protocol_without_batchnorm(),
        model=Forward.of(none, "online", "replay-obs"),
        model_target=Forward.of(none, "target", "replay-next-obs"),
    )


class MRQAgent(ActorCritic):
    settings: MRQSettings

    def __init__(
        self,
        settings: MRQSettings,
        env: EnvSpec,
        seed: int,
        total_decisions: int,
        execution: Execution = PLAIN,
    ):
        self.reward_bins = TwoHot()
        critic, actor, self.model = mrq_networks(
            env.obs_shape,
            env.num_actions,
            settings.torso,
            env.pixel_scale,
            units=settings.hidden_units,
            action_units=settings.action_units,
            reward_bins=self.reward_bins.bins,
        )
        rng = torch_stream(seed, "network")
        for network in (critic, actor, self.model):
            initialise(network, "xavier", rng)
            network.to(execution.device)

        def optimizer(rate: float, *parts: nn.Module) -> Optimizer:
            parameters, decay = nn.ModuleList(parts).parameters(), settings.weight_decay
            return Optimizer("adamw", parameters, rate, execution, weight_decay=decay)

        heads: Any = critic.heads
        modelling = (critic.encoder, heads.embedding, self.model)
        super().__init__(
            settings,
            env,
            seed,
            total_decisions,
            critics={"online": critic, "target": deepcopy(critic).requires_grad_(False)},
            actors={"online": actor, "target": deepcopy(actor).requires_grad_(False)},
            optimizers={
                "encoder": optimizer(settings.encoder_learning_rate, *modelling),
                "value": optimizer(settings.value_learning_rate, heads.twins),
                "actor": optimizer(settings.policy_learning_rate, actor),
            },
            execution=execution,
        )
        self.networks["model"] = self.model
        self.embeddings = {params: heads.embedding for params, heads in self.heads.items()}
        self.model_update = execution.compiled(self._model_update)
        self.model_means = Means(("model_loss",), execution.device)
        self.priorities = Priorities(self.replay)
        self.reward_scale = self.target_reward_scale = 1.0
        self.termination_seen = False

    def observe(self, actions: np.ndarray, step: Step) -> None:
        super().observe(actions, step)
        self.priorities.added()
        self.termination_seen |= bool(step.terminated.any())

    def make_updates(self, count: int) -> None:
        """One by one: what is drawn depends on the priorities that the update before it gave."""
        for _ in range(count):
            self._prioritised_update()

    def _prioritised_update(self) -> None:
        if self.updates % self.settings.target_period_updates == 0:
            self._renew_targets()
            for _ in range(self.settings.target_period_updates):
                self._learn_model()
        size, steps = self.settings.batch_size, self.settings.return_steps
        env_index, transition, sequences = self._sample(size, steps, self.replay_stream)
        td_error = self._learn_values(sequences)
        self.policy_update(sequences.observation(0), self._gumbel(size))
        # The one wait for the device, after all of the update's work was given to it.
        self.priorities.update(env_index, transition, td_error.cpu().numpy())
        self.updates += 1

    def _renew_targets(self) -> None:
        for pair in (self.critics, self.actors):
            pair["target"].load_state_dict(pair["online"].state_dict())
        measured = mean_absolute_reward(self.replay)
        # Before the first update no value has a unit yet.
        self.target_reward_scale = self.reward_scale if self.updates else measured
        self.reward_scale = measured

    def _sample(
        self, count: int, steps: int, rng: np.random.Generator
    ) -> tuple[Index, Index, Sequences]:
        """Environment and transition of each drawn start, and its sub-trajectory with pictures
        shifted; drawn by priority."""
        env_index, transition = self.priorities.sample(count, rng)
        sequences = gather_sequences(self.replay, env_index, transition, steps)
        frames = shifted(sequences.frames, self.settings.shift_pixels, rng, self.execution)
        return env_index, transition, replace(sequences, frames=frames)

    def _learn_model(self) -> None:
        """One encoder update."""
        settings = self.settings
        size, steps = settings.batch_size, settings.unroll_steps
        _, _, sequences = self._sample(size, steps, self.replay_stream)
        # An end that was never seen is not to be learnt.
        terminal_weight = self.execution.number(settings.terminal_weight * self.termination_seen)
        self.model_means.add(self.model_update(sequences, terminal_weight))

    def _model_update(self, sequences: Sequences, terminal_weight: Tensor) -> Float[Tensor, "1"]:
        """One step of encoder, embedding and model head; returns the loss. Each prediction is fed
        into the next, and compared with what happened at its step."""
        settings, steps = self.settings, range(self.settings.unroll_steps)
        with torch.no_grad():
            next_obs = torch.cat([sequences.observation(step + 1) for step in steps])
            encoded = forward_as("model_target", settings.protocol, self.encoders, next_obs)
            next_states = encoded.chunk(len(steps))
            rewards = self.reward_bins.encode(sequences.reward)  # [B, steps, bins]
        state = forward_as("model", settings.protocol, self.encoders, sequences.observation(0))
        losses = []
        for step in steps:
            action = one_hot(sequences.action[:, step], self.num_actions)
            predicted = self._predict(state, action)
            state = predicted.next_state
            terminated = sequences.terminated[:, step].float()
            each = (
                settings.dynamics_weight * (state - next_states[step]).square().mean(1)
                + settings.reward_weight * cross_entropy(rewards[:, step], predicted.reward_logits)
                + terminal_weight * (predicted.terminated - terminated).square()
            )
            losses.append((each * sequences.exists[:, step]).mean())
        loss: Any = sum(losses)
        self.optimizers["encoder"].descend(loss, settings.encoder_learning_rate)
        return loss.detach()[None]

    def _predict(self, state: Tensor, action: Tensor) -> Prediction:
        protocol = self.settings.protocol
        return self.model(forward_as("model", protocol, self.embeddings, (state, action)))

    def _unrolled(self, pair: Inputs) -> Float[Tensor, "B outputs"]:
        """The model's last prediction from (obs, action), the action repeated over the horizon."""
        state = forward_as("model", self.settings.protocol, self.encoders, pair[0])
        for _ in range(self.settings.unroll_steps):
            terminated, state, reward_logits = self._predict(state, pair[1])
        return torch.cat([terminated[:, None], state, reward_logits], dim=1)

    def role_forwards(
        self, transitions: Transitions, rng: torch.Generator
    ) -> dict[Role, RoleForward]:
        protocol = self.settings.protocol
        model, target = protocol.forward("model"), protocol.forward("model_target")
        pair = (transitions.obs, one_hot(transitions.action, self.num_actions))
        encode = partial(forward_as, "model_target", protocol, self.encoders)
        names = (f"{model.params}_critic", "model"), (f"{target.params}_critic",)
        own: dict[Role, RoleForward] = {
            "model": RoleForward(model, self._unrolled, pair, names[0]),
            "model_target": RoleForward(target, encode, transitions.next_obs, names[1]),
        }
        return super().role_forwards(transitions, rng) | own

    def _learn_values(self, sequences: Sequences) -> Tensor:
        """One update of the critics; returns the larger |δ| of the two for each sample."""
        scales = map(self.execution.number, (self.reward_scale, self.target_reward_scale))
        means, td_error = self.critic_update(sequences, *scales, self._bootstrap_noise())
        self.means.add(means)
        return td_error.clone()

    def _critic_update(
        self,
        sequences: Sequences,
        reward_scale: Tensor,
        target_reward_scale: Tensor,
        noise: tuple[Tensor, Tensor],
    ) -> tuple[Float[Tensor, "3"], Float[Tensor, " B"]]:
        """Update the critics but not the encoder, which has its own loss; returns (loss, mean Q,
        mean next Q) and each sample's larger |TD error|."""
        first, last = sequences.observation(0), sequences.last_next_obs()
        current = (first, one_hot(sequences.action[:, 0], self.num_actions))
        with torch.no_grad():
            steps = (sequences.reward, sequences.terminated, sequences.exists)
            rewards, discount = n_step_return(*steps, self.settings.gamma)
            next_pair = (last, self._next_action(last, noise))
            next_q = self._critic("bootstrap", current, next_pair).squeeze(-1)  # [2, B]
            next_value = next_q.amin(0) * target_reward_scale
            target = (rewards + discount * next_value) / reward_scale
        q = self._critic("predict", current, next_pair).squeeze(-1)
        loss = F.huber_loss(q, target.expand_as(q))
        td_error = (q.detach() - target).abs().amax(0)
        rate, clip = self.settings.value_learning_rate, self.settings.value_gradient_clip
        self.optimizers["value"].descend(loss, rate, clip)
        return torch.stack((loss.detach(), q.detach().mean(), next_q.mean())), td_error

    def _policy_update(self, obs: Tensor, gumbel: Tensor) -> None:
        q, logits = self._judged_policy(obs, gumbel)
        loss = self.settings.logit_penalty * logits.square().mean() - q.mean()
        self.optimizers["actor"].descend(loss, self.settings.policy_learning_rate)

    def transitions(self, count: int, rng: np.random.Generator) -> Transitions:
        """As a value update draws them; the next observation is that of the return's last step."""
        _, _, sequences = self._sample(count, self.settings.return_steps, rng)
        first, last = sequences.observation(0), sequences.last_next_obs()
        return Transitions(first, sequences.action[:, 0], last)

    def take_metrics(self) -> dict[str, float]:
        model = self.model_means.take()
        return super().take_metrics() | model | {"reward_scale": self.reward_scale}

    def state(self) -> dict[str, Any]:
        return super().state() | {
            "priorities": self.priorities.state(),
            "reward_scale": self.reward_scale,
            "target_reward_scale": self.target_reward_scale,
            "termination_seen": self.termination_seen,
            "model_means": self.model_means.state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.priorities.load_state(state["priorities"])
        self.model_means.load_state(state["model_means"])
        for name in ("reward_scale", "target_reward_scale", "termination_seen"):
            setattr(self, name, state[name])


MRQ = AgentKind(
    name="mrq",
    summary="MR.Q with a Gumbel-Softmax policy; its LayerNorm is part of it",
    settings=MRQSettings,
    arms={"ln": {"protocol": mrq_protocol()}},
    default_arm="ln",
    build=MRQAgent,
    suites=MRQ_SUITES,
)
