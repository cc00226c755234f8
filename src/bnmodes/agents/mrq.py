"""MR.Q on discrete actions: model-free values on features that are learnt by modelling.

Fujimoto, D'Oro, Zhang, Tian, Rabbat: "Towards General-Purpose Model-Free Reinforcement Learning",
ICLR 2025, arXiv:2501.16142. Priorities are LAP's (Fujimoto, Meger, Precup: "An Equivalence between
Loss Functions and Non-Uniform Sampling in Experience Replay", NeurIPS 2020, arXiv:2007.06049).
Every 250 updates the targets are copied, and the encoder gets 250 updates of its own: over an
unrolled horizon it learns to predict its next features, the reward and the end of the game. Other
updates send no gradient into it. One of them:
    draw sub-trajectories by priority, each observation of them randomly shifted by itself
    learning target: 3-step return + γ³ · the smaller target critic at the target policy's action
    both critics: Huber loss, clipped gradient, AdamW step; new priorities from the errors
    the policy follows both critics, with a small penalty on its logits
"""

from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from bnmodes.agents.actor_critic import ActorCritic
from bnmodes.agents.agent import AgentKind
from bnmodes.agents.mrq_settings import MRQSettings, mrq_protocol
from bnmodes.agents.shared import Means, forward_as, initialise_on
from bnmodes.agents.suites import MRQ_SUITES
from bnmodes.diagnostics import RoleForward, Transitions
from bnmodes.diagnostics.role_forward import Inputs
from bnmodes.envs.contract import EnvSpec, Step
from bnmodes.execution import PLAIN, Execution
from bnmodes.learning.optimizer import Optimizer
from bnmodes.learning.relaxed_actions import one_hot
from bnmodes.learning.reward_scale import mean_absolute_reward
from bnmodes.learning.targets import TwoHot, cross_entropy, n_step_return
from bnmodes.networks.mrq import Prediction, mrq_networks
from bnmodes.protocol import Role
from bnmodes.replay.priorities import Priorities
from bnmodes.replay.ring import Index
from bnmodes.replay.sequences import Sequences, gather_sequences, random_moves


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
        initialise_on(execution.device, (critic, actor, self.model), "xavier", seed)

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
        """Environment and transition of each drawn start, and its sub-trajectory with each
        observation shifted by itself; drawn by priority."""
        env_index, transition = self.priorities.sample(count, rng)
        sequences = gather_sequences(self.replay, env_index, transition, steps)
        moves = random_moves(sequences, self.settings.shift_pixels, rng, self.execution)
        return env_index, transition, replace(sequences, moves=moves)

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
    revision=2,
)
