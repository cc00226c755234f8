"""XQC on discrete actions: categorical twin critics with BatchNorm and projected kernels.

Palenicek, Vogt, Watson, Posner, Peters: "XQC: Well-conditioned Optimization Accelerates Deep
Reinforcement Learning", ICLR 2026, arXiv:2509.25174. Joined batches come from CrossQ (Bhatt,
Palenicek, Belousov, Argus, Amiranashvili, Brox, Peters: "CrossQ: Batch Normalization in Deep
Reinforcement Learning for Greater Sample Efficiency and Simplicity", ICLR 2024, arXiv:1902.05605).
One update:
    draw a minibatch; next action: the policy's one-hot action at s′ with clipped noise
    one-hot actions of the replay and the policy's are different populations, so a critic sees
        (s, a) and (s′, a′) as one joined batch
    learning target: the target critic with the lower mean, projected onto the atoms
    both critics: cross-entropy, AdamW step, kernels back to unit norm; the target moves by 0.005
    every third time: the policy follows the smaller critic; its running statistics are updated at
        each, as in the release (`policy_between`)
"""

import math
from copy import deepcopy
from dataclasses import dataclass, field
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
from bnmodes.agents.settings import ValueRange, batchnorm_protocol, fixed_choices
from bnmodes.agents.shared import forward_as, initialise_on, move_towards
from bnmodes.agents.suites import XQC_SUITES
from bnmodes.bounds import Bins, Fraction, Positive
from bnmodes.envs.contract import EnvSpec, Step
from bnmodes.errors import UsageError
from bnmodes.execution import PLAIN, Execution
from bnmodes.learning.optimizer import Optimizer
from bnmodes.learning.projection import Projection, ProjectionSettings
from bnmodes.learning.relaxed_actions import one_hot
from bnmodes.learning.reward_scale import ReturnScale
from bnmodes.learning.targets import categorical_projection, cross_entropy
from bnmodes.networks.actor_critic import Critic
from bnmodes.norm.layers import BatchNorm
from bnmodes.protocol import RUNNING, Params, Protocol
from bnmodes.replay.ring import Batch


@dataclass(frozen=True)
class XQCSettings(ValueRange, BatchNormCriticSettings):
    """Every setting of the agent. The defaults are the study's for Atari."""

    protocol: Protocol = field(default_factory=lambda: batchnorm_protocol())
    """Parameters, batch, statistics and updates of each forward."""
    projection: ProjectionSettings = ProjectionSettings(granularity="neuron", head=True)
    """The fixed-norm projection of kernels after every optimizer step."""
    updates_per_decision: Positive = 2.0
    """UTD: critic updates for each decision."""
    learning_rate: Positive = 3e-4
    """AdamW's step size at the start, for critics and policy; its weight decay is 0."""
    learning_rate_end_fraction: Fraction = 0.1
    """Where the learning rate ends after falling linearly over all updates (fraction)."""
    target_weight: Fraction = 0.005
    """Share of the online parameters in the target's, at each update."""
    policy_between: Literal["masked", "skipped"] = "masked"
    """Between policy updates: `masked` updates running statistics, as released; or `skipped`."""
    atoms: Bins = 101
    """Atoms of the value distribution (number)."""
    v_min: float = -5.0
    """Lowest atom (scaled discounted return)."""
    v_max: float = 5.0
    """Highest atom (scaled discounted return)."""

    def fixed(self) -> dict[str, str]:
        return fixed_choices("AdamW, weight decay 0", "orthogonal (gain √2)")

    def notes(self) -> list[str]:
        moments = "parameters and running statistics" if self.moments_follow else "parameters"
        target = (
            f"The target critic's {moments} move by {self.target_weight:g} towards the online "
            "ones at each update."
            if self.protocol.bootstrap.params == "target"
            else "There is no target network."
        )
        return [
            target,
            JOINED_BATCH,
            "Rewards are divided by the running deviation of the discounted return.",
            f"The policy's parameters change at every {self.policy_delay} updates of the critics, "
            + (
                "its running statistics (improve) at each."
                if self.policy_between == "masked"
                else "and so do its running statistics (improve)."
            ),
        ]

    @property
    def moments_follow(self) -> bool:
        """The target's running statistics are averaged too where they are read."""
        return self.protocol.bootstrap.statistics == "running"

    def validate(self, evaluation_rows: int) -> None:
        super().validate(evaluation_rows)
        for role, forward in self.protocol.roles().items():
            if forward.params == "target" and role != "bootstrap":
                raise UsageError(
                    f"{role} asks for target params, but only bootstrap has a target: use online."
                )


ARMS: dict[str, dict[str, Any]] = {
    "bn-joined": {"protocol": batchnorm_protocol()},
    "bn-separate": {"protocol": batchnorm_protocol(joined=False)},
    "bn-running": {"protocol": batchnorm_protocol(joined=False, bootstrap=RUNNING)},
    "xqc-no-target": {"protocol": batchnorm_protocol(params="online")},
}
for arm in ARMS.values():
    arm["projection"] = ProjectionSettings(granularity="neuron", head=True)


class XQCAgent(ActorCritic):
    settings: XQCSettings

    def __init__(
        self,
        settings: XQCSettings,
        env: EnvSpec,
        seed: int,
        total_decisions: int,
        execution: Execution = PLAIN,
    ):
        def norm(shape: tuple[int, ...]) -> BatchNorm:
            return BatchNorm(shape[0], epsilon=settings.bn_epsilon, stored_variance="biased")

        critic, actor = batchnorm_networks(settings, env, norm, settings.atoms, bias=False)
        initialise_on(execution.device, (critic, actor), "orthogonal", seed)
        self.project = {
            "critic": Projection(settings.projection, critic),
            "actor": Projection(settings.projection, actor),
        }
        critics: dict[Params, Critic] = {"online": critic}
        if settings.protocol.bootstrap.params == "target":
            critics["target"] = deepcopy(critic).requires_grad_(False)
        super().__init__(
            settings,
            env,
            seed,
            total_decisions,
            critics=critics,
            actors={"online": actor},
            optimizers={
                name: Optimizer("adamw", network.parameters(), settings.learning_rate, execution)
                for name, network in (("critic", critic), ("actor", actor))
            },
            execution=execution,
        )
        self.support = torch.linspace(settings.v_min, settings.v_max, settings.atoms).to(
            execution.device
        )
        self.returns = ReturnScale(settings.gamma, settings.num_envs)
        self.policy_statistics = execution.compiled(self._policy_statistics)

    def observe(self, actions, step: Step) -> None:
        super().observe(actions, step)
        self.returns.observe(step)

    def update_on(self, batch: Batch) -> None:
        scale = self.execution.number(self.returns.deviation)
        noise, rate = self._bootstrap_noise(), self.optimizers["critic"].at(self.learning_rate)
        self.means.add(self.critic_update(batch, scale, noise, rate))
        if self._policy_is_due():
            rate = self.optimizers["actor"].at(self.policy_learning_rate)
            self.policy_update(batch.obs, self._gumbel(self.settings.batch_size), rate)
        elif self.settings.policy_between == "masked":
            self.policy_statistics(batch.obs)
        self.updates += 1

    def _policy_is_due(self) -> bool:
        """The release's mask lets the first of each `policy_delay` updates pass."""
        return self.updates % self.settings.policy_delay == 0

    def _critic_update(
        self,
        batch: Batch,
        reward_scale: Tensor,
        noise: tuple[Tensor, Tensor],
        learning_rate: float | Tensor,
    ) -> Float[Tensor, "3"]:
        """Update both critics and Polyak-average the target; returns loss, mean Q, mean next Q."""
        loss, q, next_q = self._critic_loss(batch, reward_scale, noise)
        self._descend("critic", loss, learning_rate)
        if "target" in self.critics:
            self._move_target()
        return torch.stack((loss.detach(), q, next_q))

    def _policy_update(self, obs: Tensor, gumbel: Tensor, learning_rate: float | Tensor) -> None:
        self._descend("actor", self._policy_loss(obs, gumbel), learning_rate)

    @torch.no_grad()
    def _policy_statistics(self, obs: Tensor) -> None:
        """What a policy update without its optimizer step leaves: updated running statistics."""
        features = self._features_for_policy(obs)
        forward_as("improve", self.settings.protocol, self.actors, features)

    def _critic_loss(
        self, batch: Batch, reward_scale: Tensor, noise: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The loss of both critics, their mean Q, and the mean of the smaller next Q."""
        current = (batch.obs, one_hot(batch.action, self.num_actions))
        with torch.no_grad():
            next_pair = (batch.next_obs, self._next_action(batch.next_obs, noise))
            next_logits = self._critic("bootstrap", current, next_pair)  # [2, B, atoms]
            next_q, lower = self._expected(next_logits).min(0)
            samples = torch.arange(len(lower), device=lower.device)
            target = categorical_projection(
                next_logits[lower, samples].softmax(-1),  # [B, atoms]
                batch.reward / reward_scale,
                batch.terminated,
                self.support,
                self.settings.gamma,
            )
        logits = self._critic("predict", current, next_pair)
        first, second = (cross_entropy(target, twin).mean() for twin in logits)
        return first + second, self._expected(logits.detach()).mean(), next_q.mean()

    def _policy_loss(self, obs: Tensor, gumbel: Tensor) -> Tensor:
        judged, _ = self._judged_policy(obs, gumbel)
        return -self._expected(judged).amin(0).mean()

    def _descend(self, name: str, loss: Tensor, learning_rate: float | Tensor) -> None:
        self.optimizers[name].descend(loss, learning_rate)
        self.project[name]()

    def _move_target(self) -> None:
        target, online = self.critics["target"], self.critics["online"]
        move_towards(target.parameters(), online.parameters(), self.settings.target_weight)
        if self.settings.moments_follow:
            move_towards(target.buffers(), online.buffers(), self.settings.target_weight)

    def _expected(self, logits: Float[Tensor, "*rows atoms"]) -> Float[Tensor, "*rows"]:
        return logits.softmax(-1) @ self.support

    def q_values(self, output: Float[Tensor, "*rows atoms"]) -> Float[Tensor, "*rows"]:
        return self._expected(output)

    @property
    def learning_rate(self) -> float:
        settings = self.settings
        return self.linear_learning_rate(
            settings.learning_rate, settings.learning_rate_end_fraction
        )

    @property
    def policy_learning_rate(self) -> float:
        settings = self.settings
        if settings.policy_between == "skipped":
            return self.learning_rate
        steps = math.ceil(self.updates / settings.policy_delay)
        return self.linear_learning_rate(
            settings.learning_rate, settings.learning_rate_end_fraction, steps
        )

    def take_metrics(self) -> dict[str, float]:
        now = {
            "learning_rate": self.learning_rate,
            "policy_learning_rate": self.policy_learning_rate,
            "reward_scale": self.returns.deviation,
        }
        return super().take_metrics() | now

    def state(self) -> dict[str, Any]:
        return super().state() | {"returns": self.returns.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.returns.load_state(state["returns"])


XQC = AgentKind(
    name="xqc",
    summary="XQC with a Gumbel-Softmax policy",
    settings=XQCSettings,
    arms=ARMS,
    default_arm="bn-joined",
    build=XQCAgent,
    suites=XQC_SUITES,
    revision=2,
)
