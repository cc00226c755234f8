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

import numpy as np
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
from bnmodes.agents.shared import needs_spare_rows, of_action
from bnmodes.agents.suites import C51_SUITES
from bnmodes.bounds import Bins, Count, Fraction, Positive
from bnmodes.envs.contract import EnvSpec, Observations
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
    Moments,
    Protocol,
    Role,
)
from bnmodes.replay.ring import Batch
from bnmodes.streams import numpy_stream

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
    pool_rows: Count = 1_024
    """Replayed rows whose statistics a forward with moments `pool` uses (number)."""

    def __post_init__(self):
        # The switch declares one more forward, so that `explain` shows it.
        declared = replace(self.protocol, calibrate=CALIBRATE if self.calibrate_target else None)
        object.__setattr__(self, "protocol", declared)

    def capabilities(self, evaluation_rows: int) -> AgentCapabilities:
        offered, size = super().capabilities(evaluation_rows), self.batch_size
        rows = dict(offered.rows)
        if self.norm.kind == "bn":
            for role in ("predict", "bootstrap"):
                rows[role] = {**rows[role], "joined": 2 * size}
            rows["act"] = {**rows["act"], "acting+replay": self.num_envs + self.anchor_rows}
        if self.calibrate_target:
            rows["calibrate"] = {"replay-next-obs": CALIBRATION_ROWS}
        sources: dict[Moments, int] = {
            "independent": size,
            "pool": self.pool_rows,
            "partner": size,
        }
        return replace(offered, rows=rows, moments={"bootstrap": sources})

    @property
    def anchor_rows(self) -> int:
        """Replayed rows that join the acting ones in the population acting+replay."""
        return self.batch_size - 1

    def notes(self) -> list[str]:
        once = ["The calibrate forward runs once, before the first bootstrap."]
        joined = [
            "A joined batch is [s; s′]: predict keeps the output of the observations, bootstrap "
            "that of the next observations."
        ]
        is_joined = "joined" in (
            self.protocol.predict.population,
            self.protocol.bootstrap.population,
        )
        return super().notes() + once * self.calibrate_target + joined * is_joined

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


def _with_moments(moments: Moments) -> Protocol:
    protocol = q_learning_protocol(bootstrap=BATCH)
    return replace(protocol, bootstrap=replace(protocol.bootstrap, moments=moments))


def _joined() -> Protocol:
    """predict and bootstrap each over [s; s′], with the statistics of all of these rows."""
    protocol = q_learning_protocol(bootstrap=BATCH)
    return replace(
        protocol,
        predict=replace(protocol.predict, population="joined"),
        bootstrap=replace(protocol.bootstrap, population="joined"),
    )


def _anchored() -> Protocol:
    """No forward reads running statistics: acting has the batch statistics of the acting rows
    together with replayed ones, evaluation those of its own rows."""
    protocol = q_learning_protocol(bootstrap=BATCH)
    return replace(
        protocol,
        predict=replace(protocol.predict, update=None),
        act=Forward.of(BATCH, "online", "acting+replay"),
        evaluate=Forward.of(BATCH, "online", "evaluation"),
    )


ARMS = {
    "none": _arm("none"),
    "ln": _arm("ln"),
    "bn-running": _arm("bn", q_learning_protocol(bootstrap=RUNNING)),
    "bn-batch": _arm("bn", q_learning_protocol(bootstrap=BATCH)),
    "bn-tracked": _arm("bn", q_learning_protocol(bootstrap=TRACKED)),
    "bn-independent": _arm("bn", _with_moments("independent")),
    "bn-pool": _arm("bn", _with_moments("pool")),
    "bn-partner": _arm("bn", _with_moments("partner")),
    "bn-joined": _arm("bn", _joined()),
    "bn-anchored": _arm("bn", _anchored()),
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
        self.moment_stream = numpy_stream(seed, "moments")
        self.project = Projection(settings.projection, self.networks["online"])
        self.networks["target"].load_state_dict(self.networks["online"].state_dict())

    def finish_update(self) -> None:
        self.project()

    def q_values(self, logits: Tensor) -> Tensor:
        return logits.softmax(-1) @ self.support

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        with torch.no_grad():
            others = self.companions("bootstrap", batch.obs, batch.moment_obs)
            next_logits = self.forward("bootstrap", batch.next_obs, others)  # [B, actions, atoms]
            next_q, next_action = self.q_values(next_logits).max(-1)
            target = categorical_projection(
                of_action(next_logits, next_action).softmax(-1),  # [B, atoms]
                batch.reward,
                batch.terminated,
                self.support,
                self.settings.gamma,
            )
        others = self.companions("predict", batch.next_obs, None)
        logits = self.forward("predict", batch.obs, others)
        loss = cross_entropy(target, of_action(logits, batch.action)).mean()
        predicted_q = self.q_values(logits.detach()).amax(-1)
        return loss, predicted_q.mean(), next_q.mean()

    def update_on(self, batch: Batch) -> None:
        if self.settings.calibrate_target and self.updates == 0:
            rows = self.replay.sample(CALIBRATION_ROWS, self.replay_stream).next_obs
            with torch.no_grad():
                self.forward("calibrate", rows)
        spare = self.spare_rows("bootstrap", self.moment_stream)
        super().update_on(batch if spare is None else replace(batch, moment_obs=spare))

    def spare_rows(self, role: Role, rng: np.random.Generator) -> Tensor | None:
        settings, declared = self.settings, self.settings.protocol.forward(role)
        if not needs_spare_rows(declared):
            return None
        if role == "act":
            return self.replay.sample(settings.anchor_rows, rng).obs
        count = settings.pool_rows if declared.moments == "pool" else settings.batch_size
        return self.replay.sample(count, rng).next_obs

    def act(self, obs: Observations) -> np.ndarray:
        if self._is_anchored and not len(self.replay):
            return self.action_stream.integers(self.num_actions, size=len(obs))
        return super().act(obs)

    @property
    def acting_group(self) -> int:
        return 1 if self._is_anchored else super().acting_group

    @property
    def _is_anchored(self) -> bool:
        return self.settings.protocol.act.population == "acting+replay"

    def acting_companions(self) -> Tensor | None:
        return self.spare_rows("act", self.moment_stream)

    def state(self) -> dict[str, Any]:
        return super().state() | {"moment_stream": self.moment_stream.bit_generator.state}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.moment_stream.bit_generator.state = state["moment_stream"]

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
