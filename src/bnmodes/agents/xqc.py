"""XQC on discrete actions: categorical twin critics with BatchNorm and projected kernels.

One-hot actions of the replay and the policy's relaxed ones are different populations, so a critic
with BatchNorm sees (s, a) and (s′, a′) as one joined batch, as in CrossQ; here the target critic
does too. Without a target network the same critic is CrossQ's.
"""

from copy import deepcopy
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from bnmodes.agents.actor_critic import ActorCritic, move_towards
from bnmodes.agents.xqc_config import XQCConfig
from bnmodes.envs.contract import EnvSpec, Step
from bnmodes.execution import PLAIN, Execution
from bnmodes.learning.optimizer import Optimizer
from bnmodes.learning.projection import Projection
from bnmodes.learning.relaxed_actions import one_hot
from bnmodes.learning.reward_scale import ReturnScale
from bnmodes.learning.targets import categorical_projection, cross_entropy
from bnmodes.networks.actor_critic import Critic, DenseNetwork, Encoder, TwinHeads, initialise
from bnmodes.norm.layers import BatchNorm
from bnmodes.norm.renorm import BatchRenorm
from bnmodes.replay.ring import Batch
from bnmodes.streams import torch_stream


class XQC(ActorCritic):
    """One agent: critic and policy, the averaged critic, replay, and counters."""

    def __init__(
        self,
        config: XQCConfig,
        env: EnvSpec,
        seed: int,
        total_decisions: int,
        execution: Execution = PLAIN,
    ):
        def norm(shape: tuple[int, ...]) -> BatchNorm:
            settings = {"epsilon": config.bn_epsilon, "stored_variance": "biased"}
            if config.norm == "bn":
                return BatchNorm(shape[0], **settings)
            return BatchRenorm(shape[0], warmup_updates=config.renorm_warmup_updates, **settings)

        def dense(inputs: int, units: int, outputs: int) -> DenseNetwork:
            widths = [units] * config.hidden_layers
            return DenseNetwork(inputs, widths, outputs, norm, input_norm=True, bias=False)

        encoder = Encoder(env.obs_shape, config.torso, env.pixel_scale, norm=norm, bias=False)
        inputs = encoder.units + env.num_actions
        heads = TwinHeads(lambda: dense(inputs, config.critic_units, config.atoms))
        critic = Critic(encoder, heads)
        actor = dense(encoder.units, config.actor_units, env.num_actions)
        rng = torch_stream(seed, "network")
        for network in (critic, actor):
            initialise(network, "orthogonal", rng)
            network.to(execution.device)
        self.project = {
            "critic": Projection(config.projection, critic),
            "actor": Projection(config.projection, actor),
        }
        critics = {"online": critic}
        if config.protocol.bootstrap.params == "target":
            critics["target"] = deepcopy(critic).requires_grad_(False)
        super().__init__(
            config,
            env,
            seed,
            total_decisions,
            critics=critics,
            actors={"online": actor},
            optimizers={
                name: Optimizer("adamw", network.parameters(), config.learning_rate, execution)
                for name, network in (("critic", critic), ("actor", actor))
            },
            metrics=("loss", "predict_q", "bootstrap_q"),
            execution=execution,
        )
        self.support = torch.linspace(config.v_min, config.v_max, config.atoms).to(execution.device)
        self.returns = ReturnScale(config.gamma, config.num_envs)

    def observe(self, actions, step: Step) -> None:
        super().observe(actions, step)
        self.returns.observe(step)

    def _update(self, batch: Batch) -> None:
        scale = self.execution.number(self.returns.deviation)
        noise, rate = self._bootstrap_noise(), self.optimizers["critic"].at(self.learning_rate)
        self.means.add(self.critic_update(batch, scale, noise, rate))
        self.updates += 1
        if self.updates % self.config.policy_delay == 0:
            rate = self.optimizers["actor"].at(self.learning_rate)
            self.policy_update(batch.obs, self._gumbel(self.config.batch_size), rate)

    def _critic_update(
        self,
        batch: Batch,
        reward_scale: Tensor,
        noise: tuple[Tensor, Tensor],
        learning_rate: float | Tensor,
    ) -> Float[Tensor, "3"]:
        """And of the target."""
        loss, q, next_q = self._critic_loss(batch, reward_scale, noise)
        self._descend("critic", loss, learning_rate)
        if "target" in self.critics:
            self._move_target()
        return torch.stack((loss.detach(), q, next_q))

    def _policy_update(self, obs: Tensor, gumbel: Tensor, learning_rate: float | Tensor) -> None:
        self._descend("actor", self._policy_loss(obs, gumbel), learning_rate)

    def _critic_loss(
        self, batch: Batch, reward_scale: Tensor, noise: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        now = (batch.obs, one_hot(batch.action, self.num_actions))
        with torch.no_grad():
            following = (batch.next_obs, self._next_action(batch.next_obs, noise))
            next_logits = self._critic("bootstrap", now, following)  # [2, B, atoms]
            next_q, lower = self._expected(next_logits).min(0)
            rows = torch.arange(len(lower), device=lower.device)
            target = categorical_projection(
                next_logits[lower, rows].softmax(-1),  # [B, atoms]
                batch.reward / reward_scale,
                batch.terminated,
                self.support,
                self.config.gamma,
            )
        logits = self._critic("predict", now, following)
        loss = sum(cross_entropy(target, twin).mean() for twin in logits)
        return loss, self._expected(logits.detach()).mean(), next_q.mean()

    def _policy_loss(self, obs: Tensor, gumbel: Tensor) -> Tensor:
        judged, _ = self._judged_policy(obs, gumbel)
        return -self._expected(judged).amin(0).mean()

    def _descend(self, name: str, loss: Tensor, learning_rate: float | Tensor) -> None:
        self.optimizers[name].descend(loss, learning_rate)
        self.project[name]()

    def _move_target(self) -> None:
        target, online = self.critics["target"], self.critics["online"]
        move_towards(target.parameters(), online.parameters(), self.config.target_weight)
        if self.config.moments_follow:
            move_towards(target.buffers(), online.buffers(), self.config.target_weight)

    def _expected(self, logits: Float[Tensor, "*rows atoms"]) -> Float[Tensor, "*rows"]:
        return logits.softmax(-1) @ self.support

    def q_values(self, output: Float[Tensor, "*rows atoms"]) -> Float[Tensor, "*rows"]:
        return self._expected(output)

    @property
    def learning_rate(self) -> float:
        config = self.config
        first = self._updates_by(config.learning_starts_decisions)
        done = min(1.0, self.updates / max(1, self._updates_by(self.total_decisions) - first))
        return config.learning_rate * (1 - done * (1 - config.learning_rate_end_fraction))

    def take_metrics(self) -> dict[str, float]:
        settings = {"learning_rate": self.learning_rate, "reward_scale": self.returns.deviation}
        return super().take_metrics() | settings

    def state(self) -> dict[str, Any]:
        return super().state() | {"returns": self.returns.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.returns.load_state(state["returns"])
