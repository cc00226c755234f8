"""An agent of your own in one file: DQN with a scalar head, Huber loss and a target network.

Mnih et al.: "Human-level control through deep reinforcement learning", Nature 2015. One update:
    draw a minibatch (s, a, r, s′, terminated) from the replay
    bootstrap: the target network's largest value at s′
    predict: the online network's value of a at s
    Huber loss to r + γ · that value, Adam step
    every so many decisions, copy the online network to the target

    bnmodes train examples/dqn.py:DQN --env minatar/breakout --arm bn-batch
    bnmodes study run examples/dqn.py
    bnmodes study report examples/dqn.py
"""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from bnmodes import BATCH, RUNNING, AgentKind, Arm, Protocol, Study, SuiteDefaults
from bnmodes.agents.q_learning import (
    QLearner,
    QLearningSettings,
    q_learning_protocol,
    q_learning_protocol_without_batchnorm,
)
from bnmodes.bounds import Positive
from bnmodes.envs.contract import EnvSpec
from bnmodes.execution import PLAIN, Execution
from bnmodes.networks.norms import NormSettings
from bnmodes.replay.ring import Batch


@dataclass(frozen=True)
class DQNSettings(QLearningSettings):
    """Settings of DQN: those of Q-learning."""

    protocol: Protocol = field(default_factory=q_learning_protocol_without_batchnorm)
    """Parameters, batch, statistics and updates of each forward."""
    updates_per_decision: Positive = 0.25
    """UTD: optimizer steps for each decision; 0.25 is one every four decisions."""


ARMS = {
    "none": {
        "norm": NormSettings(kind="none"),
        "protocol": q_learning_protocol_without_batchnorm(),
    },
    "ln": {"norm": NormSettings(kind="ln"), "protocol": q_learning_protocol_without_batchnorm()},
    "bn-running": {"norm": NormSettings(kind="bn"), "protocol": q_learning_protocol(RUNNING)},
    "bn-batch": {"norm": NormSettings(kind="bn"), "protocol": q_learning_protocol(BATCH)},
}


class DQNAgent(QLearner):
    def __init__(
        self,
        settings: DQNSettings,
        env: EnvSpec,
        seed: int,
        total_decisions: int,
        execution: Execution = PLAIN,
    ):
        head_shape = (env.num_actions,)
        super().__init__(settings, env, seed, total_decisions, execution, head_shape=head_shape)

    def q_values(self, output: Tensor) -> Tensor:
        return output

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        with torch.no_grad():
            next_q = self.forward("bootstrap", batch.next_obs).amax(-1)  # [B]
            target = batch.reward + self.settings.gamma * next_q * ~batch.terminated
        q = self.forward("predict", batch.obs)
        chosen = q.gather(1, batch.action[:, None]).squeeze(1)
        return F.huber_loss(chosen, target), q.detach().amax(-1).mean(), next_q.mean()


DQN = AgentKind(
    name="dqn",
    summary="DQN with a scalar head, Huber loss and a target network",
    settings=DQNSettings,
    arms=ARMS,
    default_arm="bn-batch",
    build=DQNAgent,
    suites={
        "minatar": SuiteDefaults(
            {
                "torso": "minatar",
                "replay_capacity": 100_000,
                "learning_starts_decisions": 5_000,
                "target_period_decisions": 1_000,
                "updates_per_decision": 1.0,
            },
            total_decisions=300_000,
            evaluate_every_decisions=25_000,
        )
    },
)

STUDY = Study(
    name="dqn-beside-c51",
    question="Does DQN learn MinAtar Breakout beside C51, and do its bootstrap statistics matter?",
    arms=(
        Arm("DQN", "none", "dqn.py:DQN"),
        Arm("DQN BN running", "bn-running", "dqn.py:DQN"),
        Arm("DQN BN batch", "bn-batch", "dqn.py:DQN"),
        Arm("C51 BN batch", "bn-batch", changes={"updates_per_decision": 1.0}),
    ),
    games=("minatar/breakout",),
    seeds=(0, 1),
    total_decisions=60_000,
    reference="DQN",
)
