"""CrossQ on discrete actions: twin critics with BatchNorm after each activation, and no target.

Bhatt, Palenicek, Belousov, Argus, Amiranashvili, Brox, Peters: "CrossQ: Batch Normalization in Deep
Reinforcement Learning for Greater Sample Efficiency and Simplicity", ICLR 2024, arXiv:1902.05605.
As published: wide critics, squared error, raw rewards, Adam with β₁ 0.5, BatchRenorm after a
warm-up (or plain BatchNorm). Left to the study's other agents: the entropy bonus, in whose place
stands their Gumbel-Softmax policy with noise, and an encoder of pictures, normalised as the dense
layers are. One update:
    draw a minibatch; next action: the policy's one-hot action at s′ with clipped noise
    the online critics see (s, a) and (s′, a′) as one joined batch
    learning target: r + γ · the smaller critic at (s′, a′)
    both critics: half the squared error to it, Adam step
    every third time: the policy follows the smaller critic
"""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from bnmodes.agents.actor_critic import ActorCritic
from bnmodes.agents.agent import AgentKind
from bnmodes.agents.batchnorm_critics import (
    JOINED_BATCH,
    BatchNormCriticSettings,
    batchnorm_networks,
)
from bnmodes.agents.settings import batchnorm_protocol, fixed_choices
from bnmodes.agents.shared import initialise_on
from bnmodes.agents.suites import CROSSQ_SUITES
from bnmodes.bounds import Count, Fraction, Positive, Whole
from bnmodes.envs.contract import EnvSpec
from bnmodes.execution import PLAIN, Execution
from bnmodes.learning.optimizer import BETAS, Optimizer
from bnmodes.learning.relaxed_actions import one_hot
from bnmodes.norm.layers import BatchNorm
from bnmodes.norm.renorm import BatchRenorm
from bnmodes.protocol import AgentCapabilities, Protocol
from bnmodes.replay.ring import Batch


@dataclass(frozen=True)
class CrossQSettings(BatchNormCriticSettings):
    """Every setting of the agent. The defaults are the release's."""

    protocol: Protocol = field(default_factory=lambda: batchnorm_protocol(params="online"))
    """Parameters, batch, statistics and updates of each forward."""
    norm: Literal["batchnorm", "batchrenorm"] = "batchrenorm"
    """BatchNorm, or BatchRenorm, which keeps batch statistics near the running ones."""
    renorm_warmup_updates: Whole = 100_000
    """Updates in which batch renormalisation is still BatchNorm."""
    hidden_layers: Count = 2
    """Hidden layers of the policy and of each critic (number)."""
    critic_units: Count = 2048
    """Units in each hidden layer of a critic (number)."""
    learning_rate: Positive = 1e-3
    """Adam's step size, for critics and policy."""
    adam_beta1: Fraction = 0.5
    """Adam's weight of the old mean of gradients, for critics and policy."""

    def capabilities(self, evaluation_rows: int) -> AgentCapabilities:
        return replace(super().capabilities(evaluation_rows), has_target=False)

    def fixed(self) -> dict[str, str]:
        betas = (self.adam_beta1, BETAS[1])
        return fixed_choices("Adam", "LeCun normal (gain 1)", betas=betas)

    def notes(self) -> list[str]:
        return ["There is no target network.", JOINED_BATCH]


class CrossQAgent(ActorCritic):
    settings: CrossQSettings

    def __init__(
        self,
        settings: CrossQSettings,
        env: EnvSpec,
        seed: int,
        total_decisions: int,
        execution: Execution = PLAIN,
    ):
        def norm(shape: tuple[int, ...]) -> BatchNorm:
            shared: dict[str, Any] = {"epsilon": settings.bn_epsilon, "stored_variance": "biased"}
            if settings.norm == "batchnorm":
                return BatchNorm(shape[0], **shared)
            return BatchRenorm(shape[0], warmup_updates=settings.renorm_warmup_updates, **shared)

        critic, actor = batchnorm_networks(settings, env, norm, 1, norm_last=True)
        initialise_on(execution.device, (critic, actor), "lecun", seed)
        super().__init__(
            settings,
            env,
            seed,
            total_decisions,
            critics={"online": critic},
            actors={"online": actor},
            optimizers={
                name: Optimizer(
                    "adam",
                    network.parameters(),
                    settings.learning_rate,
                    execution,
                    betas=(settings.adam_beta1, BETAS[1]),
                )
                for name, network in (("critic", critic), ("actor", actor))
            },
            execution=execution,
        )

    def update_on(self, batch: Batch) -> None:
        self.means.add(self.critic_update(batch, self._bootstrap_noise()))
        self.updates += 1
        if self.updates % self.settings.policy_delay == 0:
            self.policy_update(batch.obs, self._gumbel(self.settings.batch_size))

    def _critic_update(self, batch: Batch, noise: tuple[Tensor, Tensor]) -> Float[Tensor, "3"]:
        """Update both critics; returns loss, mean Q, mean next Q."""
        loss, q, next_q = self._critic_loss(batch, noise)
        self.optimizers["critic"].descend(loss, self.settings.learning_rate)
        return torch.stack((loss.detach(), q, next_q))

    def _policy_update(self, obs: Tensor, gumbel: Tensor) -> None:
        loss = self._policy_loss(obs, gumbel)
        self.optimizers["actor"].descend(loss, self.settings.learning_rate)

    def _critic_loss(
        self, batch: Batch, noise: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The loss of both critics, their mean Q, and their mean next Q."""
        current = (batch.obs, one_hot(batch.action, self.num_actions))
        with torch.no_grad():
            next_pair = (batch.next_obs, self._next_action(batch.next_obs, noise))
            next_q = self._critic("bootstrap", current, next_pair).squeeze(-1)  # [2, B]
            discount = self.settings.gamma * (~batch.terminated).float()
            target = batch.reward + discount * next_q.amin(0)
        q = self._critic("predict", current, next_pair).squeeze(-1)
        loss = 0.5 * (q - target).square().mean(1).sum()
        return loss, q.detach().mean(), next_q.mean()

    def _policy_loss(self, obs: Tensor, gumbel: Tensor) -> Tensor:
        q, _ = self._judged_policy(obs, gumbel)
        return -q.amin(0).mean()


CROSSQ = AgentKind(
    name="crossq",
    summary="CrossQ's critics with a Gumbel-Softmax policy, without an entropy bonus",
    settings=CrossQSettings,
    arms={
        norm: {"norm": norm, "protocol": batchnorm_protocol(params="online")}
        for norm in ("batchnorm", "batchrenorm")
    },
    default_arm="batchrenorm",
    build=CrossQAgent,
    suites=CROSSQ_SUITES,
)
