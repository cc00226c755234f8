"""MR.Q on discrete actions: model-free values on an embedding that is learnt by modelling.

The embedding is trained to predict, over an unrolled horizon, its own next state, the reward and
the end of the game, in bursts between which it stands still; critics and policy read it and send no
gradient into it.
"""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from bnmodes.agents.actor_critic import ActorCritic
from bnmodes.agents.actor_critic_roles import Transitions
from bnmodes.agents.agent import Means
from bnmodes.agents.mrq_config import MRQConfig
from bnmodes.envs.contract import EnvSpec, Step
from bnmodes.execution import PLAIN, Execution
from bnmodes.learning.optimizer import Optimizer
from bnmodes.learning.relaxed_actions import one_hot
from bnmodes.learning.reward_scale import mean_absolute_reward
from bnmodes.learning.targets import cross_entropy
from bnmodes.learning.two_hot import TwoHot
from bnmodes.networks.actor_critic import (
    Critic,
    DenseNetwork,
    Encoder,
    dense_row_norm,
    initialise,
)
from bnmodes.networks.mrq import EmbeddedHeads, ModelHead, StateActionEmbedding
from bnmodes.protocol import Mode
from bnmodes.replay.priorities import Priorities
from bnmodes.replay.ring import Index
from bnmodes.replay.sequences import Sequences, gather_sequences, n_step_return, shifted
from bnmodes.streams import torch_stream

EACH_ROW_ALONE = Mode(statistics="none")


class MRQ(ActorCritic):
    """One agent: encoder, critics and policy, their copied targets, a model, and replay."""

    def __init__(
        self,
        config: MRQConfig,
        env: EnvSpec,
        seed: int,
        total_decisions: int,
        execution: Execution = PLAIN,
    ):
        units = config.hidden_units
        encoder = Encoder(
            env.obs_shape,
            config.torso,
            env.pixel_scale,
            pixel_offset=-0.5 if config.torso == "mrq" else 0.0,  # MinAtar's planes are binary
            norm=dense_row_norm,
            activation=F.elu,
        )
        embedding = StateActionEmbedding(encoder.units, env.num_actions, config.action_units, units)
        critic = Critic(encoder, EmbeddedHeads(embedding, units))
        actor = DenseNetwork(encoder.units, [units] * 2, env.num_actions, dense_row_norm)
        self.reward_bins = TwoHot()
        self.model = ModelHead(units, encoder.units, self.reward_bins.bins)
        rng = torch_stream(seed, "network")
        for network in (critic, actor, self.model):
            initialise(network, "xavier", rng)
            network.to(execution.device)

        def optimizer(learning_rate: float, *parts: torch.nn.Module) -> Optimizer:
            parameters = [p for part in parts for p in part.parameters()]
            decay = config.weight_decay
            return Optimizer("adamw", parameters, learning_rate, execution, weight_decay=decay)

        super().__init__(
            config,
            env,
            seed,
            total_decisions,
            critics={"online": critic, "target": deepcopy(critic).requires_grad_(False)},
            actors={"online": actor, "target": deepcopy(actor).requires_grad_(False)},
            optimizers={
                "encoder": optimizer(config.encoder_learning_rate, encoder, embedding, self.model),
                "value": optimizer(config.value_learning_rate, critic.heads.twins),
                "actor": optimizer(config.policy_learning_rate, actor),
            },
            metrics=("loss", "predict_q", "bootstrap_q"),
            execution=execution,
        )
        self.networks["model"] = self.model
        self.model_update = execution.compiled(self._model_update)
        self.model_means = Means(("model_loss",), execution.device)
        self.priorities = Priorities(self.replay)
        self.reward_scale = self.target_reward_scale = 1.0
        self.termination_seen = False

    def observe(self, actions: np.ndarray, step: Step) -> None:
        super().observe(actions, step)
        self.priorities.added()
        self.termination_seen |= bool(step.terminated.any())

    def _updates(self, count: int) -> None:
        """One by one: what is drawn depends on the priorities that the update before it gave."""
        for _ in range(count):
            self._prioritised_update()

    def _prioritised_update(self) -> None:
        if self.updates % self.config.target_period_updates == 0:
            self._renew_targets()
            for _ in range(self.config.target_period_updates):
                self._learn_model()
        size, steps = self.config.batch_size, self.config.return_steps
        env_index, transition, sequences = self._sample(size, steps, self.replay_stream)
        td_error = self._learn_values(sequences)
        self.policy_update(sequences.observation(0), self._gumbel(self.config.batch_size))
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
        """Prioritised and shifted."""
        env_index, transition = self.priorities.sample(count, rng)
        sequences = gather_sequences(self.replay, env_index, transition, steps)
        frames = shifted(sequences.frames, self.config.shift_pixels, rng, self.execution)
        return env_index, transition, replace(sequences, frames=frames)

    def _learn_model(self) -> None:
        """One encoder update."""
        config = self.config
        _, _, sequences = self._sample(config.batch_size, config.unroll_steps, self.replay_stream)
        # An end that was never seen is not to be learnt.
        terminal_weight = self.execution.number(config.terminal_weight * self.termination_seen)
        self.model_means.add(self.model_update(sequences, terminal_weight))

    def _model_update(self, sequences: Sequences, terminal_weight: Tensor) -> Float[Tensor, "1"]:
        loss = self._model_loss(sequences, terminal_weight)
        self.optimizers["encoder"].descend(loss, self.config.encoder_learning_rate)
        return loss.detach()[None]

    def _model_loss(self, sequences: Sequences, terminal_weight: Tensor) -> Tensor:
        """Predictions fed forward, each compared with what came."""
        config, online = self.config, self.critics["online"]
        steps = range(config.unroll_steps)
        with torch.no_grad():
            came = torch.cat([sequences.observation(step + 1) for step in steps])
            came = self.encoders["target"](came, EACH_ROW_ALONE).chunk(len(steps))
            rewards = self.reward_bins.encode(sequences.reward)  # [B, steps, bins]
        state = online.encoder(sequences.observation(0), EACH_ROW_ALONE)
        losses = []
        for step in steps:
            action = one_hot(sequences.action[:, step], self.num_actions)
            embedded = online.heads.embedding((state, action), EACH_ROW_ALONE)
            predicted = self.model(embedded)
            state = predicted.next_state
            terminated = sequences.terminated[:, step].float()
            each = (
                config.dynamics_weight * (state - came[step]).square().mean(1)
                + config.reward_weight * cross_entropy(rewards[:, step], predicted.reward_logits)
                + terminal_weight * (predicted.terminated - terminated).square()
            )
            losses.append((each * sequences.exists[:, step]).mean())
        return sum(losses)

    def _learn_values(self, sequences: Sequences) -> Tensor:
        """The larger |δ| of the two critics, for each row."""
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
        """Of the values alone: the encoder has its own loss."""
        loss, q, next_q, td_error = self._critic_loss(
            sequences, reward_scale, target_reward_scale, noise
        )
        rate, clip = self.config.value_learning_rate, self.config.value_gradient_clip
        self.optimizers["value"].descend(loss, rate, clip)
        return torch.stack((loss.detach(), q, next_q)), td_error

    def _policy_update(self, obs: Tensor, gumbel: Tensor) -> None:
        loss = self._policy_loss(obs, gumbel)
        self.optimizers["actor"].descend(loss, self.config.policy_learning_rate)

    def _critic_loss(
        self,
        sequences: Sequences,
        reward_scale: Tensor,
        target_reward_scale: Tensor,
        noise: tuple[Tensor, Tensor],
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        first, last = sequences.observation(0), sequences.last_next_obs()
        now = (first, one_hot(sequences.action[:, 0], self.num_actions))
        with torch.no_grad():
            rewards, discount = n_step_return(sequences, self.config.gamma)
            following = (last, self._next_action(last, noise))
            next_q = self._critic("bootstrap", now, following).squeeze(-1)  # [2, B]
            next_value = next_q.amin(0) * target_reward_scale
            target = (rewards + discount * next_value) / reward_scale
        q = self._critic("predict", now, following).squeeze(-1)
        loss = F.huber_loss(q, target.expand_as(q))
        td_error = (q.detach() - target).abs().amax(0)
        return loss, q.detach().mean(), next_q.mean(), td_error

    def _policy_loss(self, obs: Tensor, gumbel: Tensor) -> Tensor:
        q, logits = self._judged_policy(obs, gumbel)
        return self.config.logit_penalty * logits.square().mean() - q.mean()

    def transitions(self, count: int, rng: np.random.Generator) -> Transitions:
        """As a value update's; the next observation is that of its last step."""
        _, _, sequences = self._sample(count, self.config.return_steps, rng)
        return sequences.observation(0), sequences.action[:, 0], sequences.last_next_obs()

    def take_metrics(self) -> dict[str, float]:
        scale = {"reward_scale": self.reward_scale}
        return super().take_metrics() | self.model_means.take() | scale

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
