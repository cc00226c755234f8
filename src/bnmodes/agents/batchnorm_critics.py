"""What XQC and CrossQ share: an encoder, twin critics and a policy, all with BatchNorm."""

from dataclasses import dataclass
from typing import Any

from bnmodes.agents.settings import ActorCriticSettings
from bnmodes.bounds import Count, Positive, Whole
from bnmodes.envs.contract import EnvSpec
from bnmodes.networks.actor_critic import Critic, DenseNetwork, TwinHeads
from bnmodes.networks.norms import NormFactory
from bnmodes.networks.torsos import Torso

JOINED_BATCH = (
    "A joined batch is [s; s′] × [a; a′]; predict keeps the first half and bootstrap the second. "
    "Act and evaluate run the critic's encoder and the policy."
)


@dataclass(frozen=True)
class BatchNormCriticSettings(ActorCriticSettings):
    """The settings that XQC and CrossQ share; the defaults are XQC's."""

    bn_epsilon: Positive = 1e-3
    """Added to the variance."""
    hidden_layers: Count = 4
    """Hidden layers of the policy and of each critic (number)."""
    critic_units: Count = 512
    """Units in each hidden layer of a critic (number)."""
    actor_units: Count = 256
    """Units in each hidden layer of the policy (number)."""
    learning_starts_decisions: Whole = 5_000
    """Decisions taken at random before the first update."""
    policy_delay: Count = 3
    """Critic updates for each update of the policy (number)."""

    @property
    def has_batchnorm(self) -> bool:
        return True


def batchnorm_networks(
    settings: BatchNormCriticSettings,
    env: EnvSpec,
    norm: NormFactory,
    critic_outputs: int,
    *,
    bias: bool = True,
    norm_last: bool = False,
) -> tuple[Critic, DenseNetwork]:
    """The critic and the policy. Each dense network also has a norm on its input. `norm_last` puts
    norms behind the activations, and `critic_outputs` is what a critic says of one action."""
    layers: dict[str, Any] = {"norm": norm, "bias": bias, "norm_last": norm_last}

    def dense(prefix: str, inputs: dict[str, int], units: int, outputs: int) -> DenseNetwork:
        widths = [units] * settings.hidden_layers
        return DenseNetwork(inputs, widths, outputs, input_norm=True, prefix=prefix, **layers)

    encoder = Torso(env.obs_shape, settings.torso, env.pixel_scale, **layers)
    features = {"input": encoder.units}
    pair = features | {"action": env.num_actions}
    heads = TwinHeads(lambda prefix: dense(prefix, pair, settings.critic_units, critic_outputs))
    actor = dense("actor_", features, settings.actor_units, env.num_actions)
    return Critic(encoder, heads), actor
