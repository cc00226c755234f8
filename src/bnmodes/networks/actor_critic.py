"""Networks of the discrete actor-critics: an encoder of observations, and dense networks behind it.

A critic is an encoder (a `Torso`) and two value heads that read its features beside an action
vector: one-hot for an action that was taken, relaxed for one that a policy proposes.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bnmodes.networks.layers import Dense, LayerStack
from bnmodes.networks.norms import NormFactory, no_norm
from bnmodes.networks.torsos import ObservationBatch, Torso
from bnmodes.norm.layers import ModedModule
from bnmodes.protocol import Mode

StateAction = tuple[Tensor, Tensor]
"""Observations (or features of them) and action vectors, with the same number of samples."""


class DenseNetwork(LayerStack):
    """Hidden layers of `widths` units, and a head without norm and activation.

    `inputs` names the parts of an input and says their sizes. They matter to diagnostics where a
    norm stands on the input: a few action channels would not be seen among hundreds of features.
    """

    head: nn.Linear

    def __init__(
        self,
        inputs: Mapping[str, int],
        widths: Sequence[int],
        outputs: int,
        *,
        norm: NormFactory = no_norm,
        activation: Callable[[], nn.Module] = nn.ReLU,
        input_norm: bool = False,
        bias: bool = True,
        norm_last: bool = False,
        prefix: str = "",
    ):
        shape = (sum(inputs.values()),)
        super().__init__(
            shape,
            [Dense(width) for width in widths],
            [f"dense{place}" for place in range(1, len(widths) + 1)],
            norm=norm,
            activation=activation,
            bias=bias,
            norm_last=norm_last,
            prefix=prefix,
        )
        if input_norm:
            self.input_norm = norm(shape)
            ends = pairwise(accumulate(inputs.values(), initial=0))
            self.input_parts = {
                prefix + part: slice(*bounds) for part, bounds in zip(inputs, ends, strict=True)
            }
        self.head = nn.Linear(self.units, outputs)

    def run(self, x: Float[Tensor, "B inputs"], mode: Mode) -> Float[Tensor, "B outputs"]:
        if self.input_norm is not None:
            x = self.input_norm(x, mode)
        return self.head(self.hidden(x, mode))


class TwinHeads(ModedModule):
    """Two value networks on features beside an action vector."""

    def __init__(self, make_head: Callable[[str], DenseNetwork]):
        """`make_head` is given the prefix of the head's layer names."""
        super().__init__()
        self.twins = nn.ModuleList([make_head("critic1_"), make_head("critic2_")])

    def run(self, pair: StateAction, mode: Mode) -> Float[Tensor, "2 B outputs"]:
        x = torch.cat(pair, dim=1)
        return torch.stack([twin(x, mode) for twin in self.twins])


class Critic(ModedModule):
    """An encoder and twin value heads on its features."""

    def __init__(self, encoder: Torso, heads: ModedModule):
        super().__init__()
        self.encoder, self.heads = encoder, heads
        # The fastest order for convolutions on CPUs; PyTorch's types do not know this argument.
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def run(
        self, pair: tuple[ObservationBatch, Float[Tensor, "B actions"]], mode: Mode
    ) -> Float[Tensor, "2 B outputs"]:
        obs, action = pair
        return self.heads((self.encoder(obs, mode), action), mode)


class Policy(ModedModule):
    """The critic's encoder and the actor on its features: what picks actions."""

    def __init__(self, encoder: Torso, actor: DenseNetwork):
        super().__init__()
        self.encoder, self.actor = encoder, actor

    def run(self, obs: ObservationBatch, mode: Mode) -> Float[Tensor, "B actions"]:
        return self.actor(self.encoder(obs, mode), mode)
