"""XQC on discrete actions: categorical twin critics with BatchNorm and projected kernels.

One-hot actions of the replay and the policy's relaxed ones are different populations, so a critic
with BatchNorm sees (s, a) and (s′, a′) as one joined batch, as in CrossQ; here the target critic
does too. Without a target network the same critic is CrossQ's.
"""

import math
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from bnmodes.agents.actor_critic import ActorCritic, ActorCriticConfig, move_towards
from bnmodes.agents.base import require_above_zero, require_between
from bnmodes.envs.base import EnvSpec, Step
from bnmodes.errors import UsageError
from bnmodes.execution import PLAIN, Execution
from bnmodes.networks_actor_critic import Critic, DenseNetwork, Encoder, TwinHeads, initialise
from bnmodes.norm import BatchNorm
from bnmodes.optimizer import Optimizer
from bnmodes.projection import Projection, ProjectionConfig
from bnmodes.protocol import Protocol, alpha, preset
from bnmodes.relaxed_actions import one_hot
from bnmodes.renorm import BatchRenorm
from bnmodes.replay import Batch
from bnmodes.reward_scale import ReturnScale
from bnmodes.streams import torch_stream
from bnmodes.targets import categorical_projection, cross_entropy


@dataclass(frozen=True)
class XQCConfig(ActorCriticConfig):
    """Every setting of the agent. The defaults are the study's for Atari."""

    protocol: Protocol = field(default_factory=lambda: preset("xqc/joined"))
    """Parameters, rows, statistics and writes of each forward."""
    norm: Literal["bn", "brn"] = "bn"
    """BatchNorm, or batch renormalisation, which keeps batch statistics near the stored moments."""
    bn_epsilon: float = 1e-3
    """Added to the variance."""
    renorm_warmup_updates: int = 100_000
    """Updates in which batch renormalisation is still BatchNorm."""
    projection: ProjectionConfig = ProjectionConfig(granularity="neuron", head=True)
    """The fixed-norm projection of kernels after every optimizer step."""
    torso: Literal["nature", "minatar"] = "nature"
    """Hidden layers of the encoder: three convolutions and dense 512, or one and dense 128."""
    hidden_layers: int = 4
    """Hidden layers of the policy and of each critic (number)."""
    critic_units: int = 512
    """Units in each hidden layer of a critic (number)."""
    actor_units: int = 256
    """Units in each hidden layer of the policy (number)."""
    updates_per_decision: float = 2.0
    """UTD: critic updates for each decision."""
    learning_starts_decisions: int = 5_000
    """Decisions taken at random before the first update."""
    learning_rate: float = 3e-4
    """AdamW's step size at the start, for critics and policy; its weight decay is 0."""
    learning_rate_end_fraction: float = 0.1
    """Where the learning rate ends after falling linearly over all updates (fraction)."""
    target_weight: float = 0.005
    """Share of the online parameters in the target's, at each update."""
    policy_delay: int = 3
    """Critic updates for each update of the policy (number)."""
    atoms: int = 101
    """Atoms of the value distribution (number)."""
    v_min: float = -5.0
    """Lowest atom (scaled discounted return)."""
    v_max: float = 5.0
    """Highest atom (scaled discounted return)."""

    @property
    def has_batchnorm(self) -> bool:
        return True

    def notes(self) -> list[str]:
        """What the protocol's table cannot say."""
        moments = "parameters and stored moments" if self.moments_follow else "parameters"
        target = (
            f"The target critic's {moments} move by {self.target_weight:g} towards the online "
            "ones at each update."
            if self.protocol.bootstrap.params == "target"
            else "There is no target network."
        )
        return [
            target,
            "Joined rows are [s; s′] × [a; a′]; predict keeps the first half and bootstrap the "
            "second. Act and evaluate run the critic's encoder and the policy.",
            "Rewards are divided by the running deviation of the discounted return.",
        ]

    @property
    def moments_follow(self) -> bool:
        """The target's stored moments are averaged too where they are read."""
        return self.protocol.bootstrap.statistics == "running" or self.norm == "brn"

    def validate(self, evaluation_rows: int) -> None:
        super().validate(evaluation_rows)
        require_between(
            self,
            hidden_layers=(1, math.inf),
            critic_units=(1, math.inf),
            actor_units=(1, math.inf),
            policy_delay=(1, math.inf),
            renorm_warmup_updates=(0, math.inf),
            target_weight=(0, 1),
            learning_rate_end_fraction=(0, 1),
            atoms=(2, math.inf),
        )
        require_above_zero(self, "learning_rate", "bn_epsilon")
        for role, forward in self.protocol.roles().items():
            if forward.params == "target" and role != "bootstrap":
                raise UsageError(
                    f"{role} asks for target params, but only bootstrap has a target: use online."
                )
        if not self.v_min < self.v_max:
            raise UsageError(f"v_min {self.v_min} must be below v_max {self.v_max}.")


ARMS = ("bn-joined", "bn-separate", "bn-running", "crossq", "crossq-renorm")


def xqc_config(arm: str, env_family: str, online_alpha: float | str = 0.01) -> XQCConfig:
    """The configuration of an arm, for a family of games.

    `online_alpha` is the weight with which loss forwards write the stored moments.
    """
    if arm not in ARMS:
        raise UsageError(f"arm '{arm}' is unknown: choose one of {', '.join(ARMS)}.")
    config = XQCConfig()
    if env_family != "atari":
        # Two processor cores want smaller networks, a smaller batch and fewer updates.
        config = replace(
            config,
            torso="minatar",
            hidden_layers=2,
            critic_units=128,
            actor_units=128,
            batch_size=64,
            updates_per_decision=1.0,
            replay_capacity=100_000,
            learning_starts_decisions=1_000,
        )
    name = "crossq/joined" if arm.startswith("crossq") else f"xqc/{arm.removeprefix('bn-')}"
    return replace(
        config,
        protocol=preset(name, update=alpha(online_alpha)),
        norm="brn" if arm.endswith("renorm") else "bn",
    )


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
        learning_rate: Tensor,
    ) -> Float[Tensor, "3"]:
        """And of the target."""
        loss, q, next_q = self._critic_loss(batch, reward_scale, noise)
        self._descend("critic", loss, learning_rate)
        if "target" in self.critics:
            self._move_target()
        return torch.stack((loss.detach(), q, next_q))

    def _policy_update(self, obs: Tensor, gumbel: Tensor, learning_rate: Tensor) -> None:
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

    def _descend(self, name: str, loss: Tensor, learning_rate: Tensor) -> None:
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
