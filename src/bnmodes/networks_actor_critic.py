"""Networks of the discrete actor-critics: an encoder of pictures, and dense networks behind it.

A critic is an encoder and two value heads that read its features beside an action vector: one-hot
for an action that was taken, relaxed for one that a policy proposes.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from bnmodes.networks import TORSOS, Conv, Dense, Unnormalised
from bnmodes.norm import ModedModule
from bnmodes.protocol import Mode

NormFactory = Callable[[tuple[int, ...]], ModedModule]
"""A norm for features [B, *shape]."""
Activation = Callable[[Tensor], Tensor]

LAYERS = TORSOS | {
    "mrq": (Conv(32, 3, 2), Conv(32, 3, 2), Conv(32, 3, 2), Conv(32, 3, 1), Dense(512))
}
"""Hidden layers of each encoder."""


def unnormalised(shape: tuple[int, ...]) -> ModedModule:
    return Unnormalised()


class RowNorm(ModedModule):
    """LayerNorm of each row alone, without scale and offset."""

    def run(self, x: Float[Tensor, "B units"], mode: Mode) -> Float[Tensor, "B units"]:
        return F.layer_norm(x, x.shape[1:])


def dense_row_norm(shape: tuple[int, ...]) -> ModedModule:
    """LayerNorm on dense layers only."""
    return RowNorm() if len(shape) == 1 else Unnormalised()


class Encoder(ModedModule):
    """Pictures to features: linear → norm → activation on every layer."""

    def __init__(
        self,
        obs_shape: tuple[int, int, int],
        layers: str,
        pixel_scale: float,
        pixel_offset: float = 0.0,
        norm: NormFactory = unnormalised,
        activation: Activation = torch.relu,
        bias: bool = True,
    ):
        super().__init__()
        self.pixel_scale, self.pixel_offset = pixel_scale, pixel_offset
        self.activation = activation
        self.linears, self.norms = nn.ModuleList(), nn.ModuleList()
        shape = obs_shape
        for layer in LAYERS[layers]:
            if isinstance(layer, Conv):
                linear = nn.Conv2d(shape[0], layer.channels, layer.kernel, layer.stride, bias=bias)
                side = [(length - layer.kernel) // layer.stride + 1 for length in shape[1:]]
                shape = (layer.channels, *side)
            else:
                linear = nn.Linear(math.prod(shape), layer.units, bias=bias)
                shape = (layer.units,)
            self.linears.append(linear)
            self.norms.append(norm(shape))
        (self.units,) = shape
        self.to(memory_format=torch.channels_last)

    def run(self, x: UInt8[Tensor, "B C H W"], mode: Mode) -> Float[Tensor, "B units"]:
        x = (torch.stack(x.unbind(1), -1) * self.pixel_scale + self.pixel_offset).movedim(-1, 1)
        for linear, norm in zip(self.linears, self.norms, strict=True):
            if isinstance(linear, nn.Linear) and x.ndim == 4:
                x = x.permute(0, 2, 3, 1).flatten(1)  # no copy: that is the order in memory
            x = self.activation(norm(linear(x), mode))
        return x


class DenseNetwork(ModedModule):
    """Hidden layers of `widths` units, linear → norm → activation, and a bare head."""

    def __init__(
        self,
        inputs: int,
        widths: Sequence[int],
        outputs: int,
        norm: NormFactory = unnormalised,
        activation: Activation = torch.relu,
        input_norm: bool = False,
        bias: bool = True,
    ):
        super().__init__()
        self.activation = activation
        self.input_norm = norm((inputs,)) if input_norm else Unnormalised()
        sizes = [inputs, *widths]
        self.linears = nn.ModuleList(
            nn.Linear(before, after, bias=bias) for before, after in pairwise(sizes)
        )
        self.norms = nn.ModuleList(norm((width,)) for width in widths)
        self.head = nn.Linear(sizes[-1], outputs)

    def run(self, x: Float[Tensor, "B inputs"], mode: Mode) -> Float[Tensor, "B outputs"]:
        x = self.input_norm(x, mode)
        for linear, norm in zip(self.linears, self.norms, strict=True):
            x = self.activation(norm(linear(x), mode))
        return self.head(x)


class TwinHeads(ModedModule):
    """Two value networks on features beside an action vector."""

    def __init__(self, make_head: Callable[[], DenseNetwork]):
        super().__init__()
        self.twins = nn.ModuleList([make_head(), make_head()])

    def run(
        self, rows: tuple[Float[Tensor, "B units"], Float[Tensor, "B actions"]], mode: Mode
    ) -> Float[Tensor, "2 B outputs"]:
        x = torch.cat(rows, dim=1)
        return torch.stack([twin(x, mode) for twin in self.twins])


class Critic(ModedModule):
    """An encoder and the twin heads on its features."""

    def __init__(self, encoder: Encoder, heads: ModedModule):
        super().__init__()
        self.encoder, self.heads = encoder, heads

    def run(
        self, rows: tuple[UInt8[Tensor, "B C H W"], Float[Tensor, "B actions"]], mode: Mode
    ) -> Float[Tensor, "2 B outputs"]:
        obs, action = rows
        return self.heads((self.encoder(obs, mode), action), mode)


def initialise(
    network: nn.Module, scheme: Literal["kaiming", "orthogonal", "xavier"], rng: torch.Generator
) -> None:
    """Kernels by a scheme with the gain of a ReLU, √2; biases 0."""
    for layer in network.modules():
        if not isinstance(layer, nn.Linear | nn.Conv2d):
            continue
        if scheme == "kaiming":
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=rng)
        elif scheme == "orthogonal":
            kernel = torch.empty(layer.weight.shape)  # a channels-last one is refused
            nn.init.orthogonal_(kernel, gain=math.sqrt(2), generator=rng)
            layer.weight.data.copy_(kernel)
        else:
            nn.init.xavier_uniform_(layer.weight, gain=math.sqrt(2), generator=rng)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
