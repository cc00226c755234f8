"""TD3 on discrete actions: twin critics, a delayed Gumbel-Softmax policy, averaged targets."""

from copy import deepcopy
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from bnmodes.agents.actor_critic import ActorCritic, move_towards
from bnmodes.agents.td3_config import TD3Config
from bnmodes.envs.contract import EnvSpec
from bnmodes.execution import PLAIN, Execution
from bnmodes.learning.optimizer import Optimizer
from bnmodes.learning.relaxed_actions import one_hot
from bnmodes.learning.reward_scale import mean_absolute_reward
from bnmodes.networks.actor_critic import Critic, DenseNetwork, Encoder, TwinHeads, initialise
from bnmodes.replay.ring import Batch
from bnmodes.streams import torch_stream


class TD3(ActorCritic):
    """One agent: critic and policy, their averaged targets, replay, and counters."""

    def __init__(
        self,
        config: TD3Config,
        env: EnvSpec,
        seed: int,
        total_decisions: int,
        execution: Execution = PLAIN,
    ):
        encoder = Encoder(env.obs_shape, config.torso, env.pixel_scale)
        widths = [config.hidden_units] * 2
        inputs = encoder.units + env.num_actions
        critic = Critic(encoder, TwinHeads(lambda: DenseNetwork(inputs, widths, 1)))
        actor = DenseNetwork(encoder.units, widths, env.num_actions)
        rng = torch_stream(seed, "network")
        for network in (critic, actor):
            initialise(network, "kaiming", rng)
            network.to(execution.device)
        super().__init__(
            config,
            env,
            seed,
            total_decisions,
            critics={"online": critic, "target": deepcopy(critic).requires_grad_(False)},
            actors={"online": actor, "target": deepcopy(actor).requires_grad_(False)},
            optimizers={
                name: Optimizer("adam", network.parameters(), config.learning_rate, execution)
                for name, network in (("critic", critic), ("actor", actor))
            },
            metrics=("loss", "predict_q", "bootstrap_q"),
            execution=execution,
        )
        self.reward_scale = 1.0

    def _update(self, batch: Batch) -> None:
        config = self.config
        if self.updates % config.reward_scale_period_updates == 0:
            self.reward_scale = mean_absolute_reward(self.replay)
        scale = self.execution.number(self.reward_scale)
        self.means.add(self.critic_update(batch, scale, self._bootstrap_noise()))
        self.updates += 1
        if self.updates % config.policy_delay == 0:
            self.policy_update(batch.obs, self._gumbel(config.batch_size))

    def _critic_update(
        self, batch: Batch, reward_scale: Tensor, noise: tuple[Tensor, Tensor]
    ) -> Float[Tensor, "3"]:
        loss, q, next_q = self._critic_loss(batch, reward_scale, noise)
        self.optimizers["critic"].descend(loss, self.config.learning_rate)
        return torch.stack((loss.detach(), q, next_q))

    def _policy_update(self, obs: Tensor, gumbel: Tensor) -> None:
        """And of the targets."""
        self.optimizers["actor"].descend(self._policy_loss(obs, gumbel), self.config.learning_rate)
        for pair in (self.critics, self.actors):
            parameters = (pair[params].parameters() for params in ("target", "online"))
            move_towards(*parameters, self.config.target_weight)

    def _critic_loss(
        self, batch: Batch, reward_scale: Tensor, noise: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        now = (batch.obs, one_hot(batch.action, self.num_actions))
        with torch.no_grad():
            following = (batch.next_obs, self._next_action(batch.next_obs, noise))
            next_q = self._critic("bootstrap", now, following).squeeze(-1)  # [2, B]
            discount = self.config.gamma * (~batch.terminated).float()
            target = batch.reward / reward_scale + discount * next_q.amin(0)
        q = self._critic("predict", now, following).squeeze(-1)
        loss = (q - target).square().mean(1).sum()
        return loss, q.detach().mean(), next_q.mean()

    def _policy_loss(self, obs: Tensor, gumbel: Tensor) -> Tensor:
        q, _ = self._judged_policy(obs, gumbel)
        return -q[0].mean()

    def take_metrics(self) -> dict[str, float]:
        return super().take_metrics() | {"reward_scale": self.reward_scale}

    def state(self) -> dict[str, Any]:
        return super().state() | {"reward_scale": self.reward_scale}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.reward_scale = state["reward_scale"]
