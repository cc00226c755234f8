"""Batch-statistic bootstrapping for Stable-Baselines3's DQN, in four lines.

pip install '.[examples]' && python examples/sb3_batch_bootstrap.py
"""

from sb3_audit import batchnorm_dqn
from stable_baselines3 import DQN

from bnmodes import audit, forward_mode


class BatchBootstrapDQN(DQN):
    """The target network normalises by the minibatch of successors, and stores nothing of it."""

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        with forward_mode(self.q_net_target, "batch"):
            super().train(gradient_steps, batch_size)


class AuditedDQN(BatchBootstrapDQN):
    """Looks at its own bootstrap forward where DQN.train calls it."""

    def _update_learning_rate(self, optimizers) -> None:
        super()._update_learning_rate(optimizers)
        rows = self.replay_buffer.sample(self.batch_size)
        self.observed = audit(self.q_net_target, rows.next_observations)


if __name__ == "__main__":
    model = batchnorm_dqn(AuditedDQN)
    print(f"bootstrap: q_net_target, inside DQN.train\n{model.observed}")
