"""TD3 on discrete actions: twin critics, a delayed Gumbel-Softmax policy, averaged targets.

Fujimoto, van Hoof, Meger: "Addressing Function Approximation Error in Actor-Critic Methods",
ICML 2018, arXiv:1802.09477. One update:
    draw a minibatch (s, a, r, s′, terminated) from the replay
    next action: the target policy's one-hot action at s′ with clipped noise
    learning target: r (divided by the mean |reward|) + γ · the smaller target critic at (s′, a′)
    both critics: squared error to the target, Adam step
    every second time: the policy follows the first critic, and the targets move by 0.005
"""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from bnmodes.agents.actor_critic import ActorCritic
from bnmodes.agents.agent import AgentKind
from bnmodes.agents.settings import (
    KAIMING,
    ActorCriticSettings,
    fixed_choices,
    protocol_without_batchnorm,
)
from bnmodes.agents.shared import initialise_on, move_towards
from bnmodes.agents.suites import TD3_SUITES
from bnmodes.bounds import Count, Fraction, Positive
from bnmodes.envs.contract import EnvSpec
from bnmodes.execution import PLAIN, Execution
from bnmodes.learning.optimizer import Optimizer
from bnmodes.learning.relaxed_actions import one_hot
from bnmodes.learning.reward_scale import mean_absolute_reward
from bnmodes.networks.actor_critic import Critic, DenseNetwork, TwinHeads
from bnmodes.networks.torsos import Torso
from bnmodes.protocol import Protocol
from bnmodes.replay.ring import Batch


@dataclass(frozen=True)
class TD3Settings(ActorCriticSettings):
    """Every setting of the agent. The defaults are the study's for Atari."""

    protocol: Protocol = field(default_factory=protocol_without_batchnorm)
    """Parameters, batch, statistics and updates of each forward."""
    hidden_units: Count = 512
    """Units in each of the two hidden layers of the policy and of each critic (number)."""
    learning_rate: Positive = 3e-4
    """Adam's step size, for critics and policy."""
    target_weight: Fraction = 0.005
    """Share of the online parameters in the target's, at each policy update."""
    policy_delay: Count = 2
    """Critic updates for each update of policy and targets (number)."""
    reward_scale_period_updates: Count = 250
    """Updates between two measurements of the mean |reward| that rewards are divided by."""

    def fixed(self) -> dict[str, str]:
        return fixed_choices("Adam", KAIMING)

    def notes(self) -> list[str]:
        return [
            f"The targets of encoder, critics and policy move by {self.target_weight:g} towards "
            f"the online ones at every {self.policy_delay} updates.",
            "Rewards are divided by the replay's mean |reward|, measured every "
            f"{self.reward_scale_period_updates} updates.",
        ]


class TD3Agent(ActorCritic):
    settings: TD3Settings

    def __init__(
        self,
        settings: TD3Settings,
        env: EnvSpec,
        seed: int,
        total_decisions: int,
        execution: Execution = PLAIN,
    ):
        encoder = Torso(env.obs_shape, settings.torso, env.pixel_scale)
        widths = [settings.hidden_units] * 2
        inputs = {"input": encoder.units, "action": env.num_actions}
        heads = TwinHeads(lambda prefix: DenseNetwork(inputs, widths, 1, prefix=prefix))
        critic = Critic(encoder, heads)
        actor = DenseNetwork({"input": encoder.units}, widths, env.num_actions, prefix="actor_")
        initialise_on(execution.device, (critic, actor), "kaiming", seed)
        super().__init__(
            settings,
            env,
            seed,
            total_decisions,
            critics={"online": critic, "target": deepcopy(critic).requires_grad_(False)},
            actors={"online": actor, "target": deepcopy(actor).requires_grad_(False)},
            optimizers={
                name: Optimizer("adam", network.parameters(), settings.learning_rate, execution)
                for name, network in (("critic", critic), ("actor", actor))
            },
            execution=execution,
        )
        self.reward_scale = 1.0

    def update_on(self, batch: Batch) -> None:
        settings = self.settings
        if self.updates % settings.reward_scale_period_updates == 0:
            self.reward_scale = mean_absolute_reward(self.replay)
        scale = self.execution.number(self.reward_scale)
        self.means.add(self.critic_update(batch, scale, self._bootstrap_noise()))
        self.updates += 1
        if self.updates % settings.policy_delay == 0:
            self.policy_update(batch.obs, self._gumbel(settings.batch_size))

    def _critic_update(
        self, batch: Batch, reward_scale: Tensor, noise: tuple[Tensor, Tensor]
    ) -> Float[Tensor, "3"]:
        """Update both critics; returns loss, mean Q, mean next Q."""
        loss, q, next_q = self._critic_loss(batch, reward_scale, noise)
        self.optimizers["critic"].descend(loss, self.settings.learning_rate)
        return torch.stack((loss.detach(), q, next_q))

    def _policy_update(self, obs: Tensor, gumbel: Tensor) -> None:
        """Update the policy and Polyak-average the targets."""
        self.optimizers["actor"].descend(
            self._policy_loss(obs, gumbel), self.settings.learning_rate
        )
        for pair in (self.critics, self.actors):
            target, online = pair["target"].parameters(), pair["online"].parameters()
            move_towards(target, online, self.settings.target_weight)

    def _critic_loss(
        self, batch: Batch, reward_scale: Tensor, noise: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The loss of both critics, their mean Q, and the target critics' mean next Q."""
        current = (batch.obs, one_hot(batch.action, self.num_actions))
        with torch.no_grad():
            next_pair = (batch.next_obs, self._next_action(batch.next_obs, noise))
            next_q = self._critic("bootstrap", current, next_pair).squeeze(-1)  # [2, B]
            discount = self.settings.gamma * (~batch.terminated).float()
            target = batch.reward / reward_scale + discount * next_q.amin(0)
        q = self._critic("predict", current, next_pair).squeeze(-1)
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


TD3 = AgentKind(
    name="td3",
    summary="TD3 with a Gumbel-Softmax policy, without normalisation",
    settings=TD3Settings,
    arms={"none": {"protocol": protocol_without_batchnorm()}},
    default_arm="none",
    build=TD3Agent,
    suites=TD3_SUITES,
)
