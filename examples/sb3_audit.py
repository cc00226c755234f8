"""Which statistics does Stable-Baselines3's DQN bootstrap with, when its network has BatchNorm?

pip install '.[examples]' && python examples/sb3_audit.py
"""

import torch
from stable_baselines3 import DQN
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

from bnmodes import audit


class BatchNormFeatures(BaseFeaturesExtractor):
    def __init__(self, observation_space, width: int = 64):
        super().__init__(observation_space, width)
        (inputs,) = observation_space.shape
        self.layers = nn.Sequential(nn.Linear(inputs, width), nn.BatchNorm1d(width), nn.ReLU())

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.layers(obs)


def batchnorm_dqn(algorithm: type[DQN] = DQN, decisions: int = 400) -> DQN:
    """A DQN on CartPole that has learnt for a moment."""
    policy = {"features_extractor_class": BatchNormFeatures, "net_arch": []}
    model = algorithm("MlpPolicy", "CartPole-v1", policy_kwargs=policy, learning_starts=100, seed=0)
    return model.learn(decisions)


def show(model: DQN) -> None:
    rows = model.replay_buffer.sample(model.batch_size)
    model.policy.set_training_mode(True)  # as DQN.train does
    print(f"predict: q_net\n{audit(model.q_net, rows.observations)}\n")
    print(f"bootstrap: q_net_target\n{audit(model.q_net_target, rows.next_observations)}\n")
    model.policy.set_training_mode(False)  # as DQN.predict does
    print(f"act: q_net\n{audit(model.q_net, rows.observations)}")


if __name__ == "__main__":
    show(batchnorm_dqn())
