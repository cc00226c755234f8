"""C51: Q-learning of the distribution of returns over fixed atoms.

Bellemare, Dabney, Munos: "A Distributional Perspective on Reinforcement Learning", ICML 2017,
arXiv:1707.06887. The arms are those of "On BatchNorm Forward Modes in Value-Based Reinforcement
Learning". One update:
    draw a minibatch (s, a, r, s′, terminated) from the replay
    bootstrap: the target network's distribution at s′, of the action with the largest mean
    project r + γ·atoms with that distribution back onto the atoms: the learning target
    predict: the online network's distribution of a at s; cross-entropy to the target; Adam step
    with "WN", scale every kernel back to its fixed norm
"""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor

from bnmodes.agents.agent import AgentKind
from bnmodes.agents.q_learning import (
    QLearner,
    QLearningSettings,
    q_learning_protocol,
    q_learning_protocol_without_batchnorm,
)
from bnmodes.agents.settings import ValueRange
from bnmodes.agents.shared import of_action
from bnmodes.agents.suites import C51_SUITES
from bnmodes.bounds import Bins, Fraction, Positive
from bnmodes.envs.contract import EnvSpec
from bnmodes.errors import UsageError
from bnmodes.execution import PLAIN, Execution
from bnmodes.learning.projection import Projection, ProjectionSettings
from bnmodes.learning.targets import categorical_projection, cross_entropy
from bnmodes.networks.norms import NormKind, NormSettings
from bnmodes.networks.torsos import TorsoName
from bnmodes.protocol import (
    BATCH,
    RUNNING,
    AgentCapabilities,
    Forward,
    Mode,
    Population,
    Protocol,
)
from bnmodes.replay.ring import Batch

CALIBRATION_ROWS = 1_024
CALIBRATE = Forward(statistics="batch", update=1.0, params="target", population="replay-next-obs")
"""A forward that sets the target's running statistics to those of its batch."""


@dataclass(frozen=True)
class C51Settings(ValueRange, QLearningSettings):
    """Every setting of the agent. The defaults are the paper's for Atari."""

    protocol: Protocol = field(default_factory=q_learning_protocol_without_batchnorm)
    """Parameters, batch, statistics and updates of each forward."""
    torso: TorsoName = "nature"
    """Hidden layers of the network, by name; `auto` chooses by the size of an observation."""
    projection: ProjectionSettings = ProjectionSettings()
    """The fixed-norm projection of kernels after every optimizer step."""
    updates_per_decision: Positive = 0.25
    """UTD: optimizer steps for each decision; 0.25 is one every four decisions."""
    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    """Keep the learning rate, or let it fall linearly over all updates."""
    learning_rate_end_fraction: Fraction = 0.0
    """Where a linear schedule ends (fraction of the learning rate)."""
    calibrate_target: bool = False
    """Set the target's running statistics from replay before the first bootstrap (control arm)."""
    atoms: Bins = 51
    """Atoms of the value distribution (number)."""

    def __post_init__(self):
        # The switch declares one more forward, so that `explain` shows it.
        declared = replace(self.protocol, calibrate=CALIBRATE if self.calibrate_target else None)
        object.__setattr__(self, "protocol", declared)

    def capabilities(self, evaluation_rows: int) -> AgentCapabilities:
        offered = super().capabilities(evaluation_rows)
        if not self.calibrate_target:
            return offered
        calibrate: dict[Population, int] = {"replay-next-obs": CALIBRATION_ROWS}
        return replace(offered, rows={**offered.rows, "calibrate": calibrate})

    def notes(self) -> list[str]:
        once = ["The calibrate forward runs once, before the first bootstrap."]
        return super().notes() + once * self.calibrate_target

    def validate(self, evaluation_rows: int) -> None:
        if self.calibrate_target and self.norm.kind != "bn":
            raise UsageError("calibrate_target sets running statistics: only BatchNorm has them.")
        super().validate(evaluation_rows)


def _arm(
    norm: NormKind, protocol: Protocol | None = None, projected: bool = False
) -> dict[str, Any]:
    """The settings that make an arm; with a projection the learning rate falls linearly."""
    return {
        "norm": NormSettings(kind=norm),
        "protocol": protocol or q_learning_protocol_without_batchnorm(),
        "projection": ProjectionSettings(granularity="neuron" if projected else "none"),
        "learning_rate_schedule": "linear" if projected else "constant",
    }


TRACKED = Mode(statistics="running", track=0.01)

ARMS = {
    "none": _arm("none"),
    "ln": _arm("ln"),
    "bn-running": _arm("bn", q_learning_protocol(bootstrap=RUNNING)),
    "bn-batch": _arm("bn", q_learning_protocol(bootstrap=BATCH)),
    "bn-tracked": _arm("bn", q_learning_protocol(bootstrap=TRACKED)),
    "ln-wn": _arm("ln", projected=True),
    "bn-wn": _arm("bn", q_learning_protocol(bootstrap=BATCH), projected=True),
}


class C51Agent(QLearner):
    settings: C51Settings

    def __init__(
        self,
        settings: C51Settings,
        env: EnvSpec,
        seed: int,
        total_decisions: int,
        execution: Execution = PLAIN,
    ):
        head_shape = (env.num_actions, settings.atoms)
        super().__init__(settings, env, seed, total_decisions, execution, head_shape=head_shape)
        atoms = torch.linspace(settings.v_min, settings.v_max, settings.atoms)
        self.support = atoms.to(execution.device)
        self.project = Projection(settings.projection, self.networks["online"])
        self.networks["target"].load_state_dict(self.networks["online"].state_dict())

    def finish_update(self) -> None:
        self.project()

    def q_values(self, logits: Tensor) -> Tensor:
        return logits.softmax(-1) @ self.support

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        with torch.no_grad():
            next_logits = self.forward("bootstrap", batch.next_obs)  # [B, actions, atoms]
            next_q, next_action = self.q_values(next_logits).max(-1)
            target = categorical_projection(
                of_action(next_logits, next_action).softmax(-1),  # [B, atoms]
                batch.reward,
                batch.terminated,
                self.support,
                self.settings.gamma,
            )
        logits = self.forward("predict", batch.obs)
        loss = cross_entropy(target, of_action(logits, batch.action)).mean()
        predicted_q = self.q_values(logits.detach()).amax(-1)
        return loss, predicted_q.mean(), next_q.mean()

    def update_on(self, batch: Batch) -> None:
        if self.settings.calibrate_target and self.updates == 0:
            rows = self.replay.sample(CALIBRATION_ROWS, self.replay_stream).next_obs
            with torch.no_grad():
                self.forward("calibrate", rows)
        super().update_on(batch)

    @property
    def learning_rate(self) -> float:
        settings = self.settings
        if settings.learning_rate_schedule == "constant":
            return settings.learning_rate
        return self.linear_learning_rate(
            settings.learning_rate, settings.learning_rate_end_fraction
        )


C51 = AgentKind(
    name="c51",
    summary="C51, a categorical value learner with a replay and a target network",
    settings=C51Settings,
    arms=ARMS,
    default_arm="bn-batch",
    build=C51Agent,
    suites=C51_SUITES,
)
