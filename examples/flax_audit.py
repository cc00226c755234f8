"""Which statistics does a Flax network with BatchNorm use, in each way that purejaxql calls it?

purejaxql's PQN has `BatchNorm(use_running_average=not train)`. It acts and bootstraps with
train=False and computes its loss with train=True and mutable batch_stats.

pip install '.[flax]' && python examples/flax_audit.py
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from bnmodes import audit_function


class QNetwork(nn.Module):
    """A small one, built as purejaxql builds its own."""

    actions: int = 4
    norm_type: str = "batch_norm"

    @nn.compact
    def __call__(self, x, train: bool):
        def normalise(x):
            if self.norm_type == "batch_norm":
                return nn.BatchNorm(use_running_average=not train)(x)
            return nn.LayerNorm()(x)

        if self.norm_type != "batch_norm":
            # A dummy, so that batch_stats exist for every kind of norm: its output is not used.
            nn.BatchNorm(use_running_average=not train)(x)
        x = nn.relu(normalise(nn.Dense(32)(x)))
        x = nn.relu(normalise(nn.Dense(32)(x)))
        return nn.Dense(self.actions)(x)


def show(network: QNetwork, obs) -> None:
    variables = network.init(jax.random.key(0), obs, train=False)
    params, batch_stats = variables["params"], variables["batch_stats"]

    def evaluation(stats, x):
        """Acting and bootstrapping."""
        return network.apply({"params": params, "batch_stats": stats}, x, train=False), None

    def training(stats, x):
        """The loss: its new statistics go into the train state."""
        variables = {"params": params, "batch_stats": stats}
        q, new = network.apply(variables, x, train=True, mutable=["batch_stats"])
        return q, new["batch_stats"]

    def batch_only(stats, x):
        """A batch-statistic bootstrap in Flax: training mode, its new statistics thrown away."""
        return training(stats, x)[0], None

    print(f"{network.norm_type}: act and bootstrap, train=False")
    print(f"{audit_function(jax.jit(evaluation), batch_stats, obs)}\n")
    print(f"{network.norm_type}: loss, train=True")
    print(f"{audit_function(jax.jit(training), batch_stats, obs)}\n")
    print(f"{network.norm_type}: train=True without its new statistics")
    print(f"{audit_function(jax.jit(batch_only), batch_stats, obs)}\n")


if __name__ == "__main__":
    rows = jax.random.normal(jax.random.key(1), (32, 8), jnp.float32)
    for norm_type in ("batch_norm", "layer_norm"):
        show(QNetwork(norm_type=norm_type), rows)
