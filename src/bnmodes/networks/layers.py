"""Hidden layers, each linear → norm → activation: what every network here is built from.

CrossQ's are linear → activation → norm.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bnmodes.networks.norms import NormFactory, no_norm
from bnmodes.norm.layers import ModedModule
from bnmodes.protocol import Mode


@dataclass(frozen=True)
class Conv:
    """A convolution without padding."""

    channels: int
    kernel: int
    stride: int

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        sides = [(length - self.kernel) // self.stride + 1 for length in shape[1:]]
        return (self.channels, *sides)

    def linear(self, shape: tuple[int, ...], bias: bool) -> nn.Module:
        return nn.Conv2d(shape[0], self.channels, self.kernel, self.stride, bias=bias)

    def __str__(self) -> str:
        stride = f" with stride {self.stride}" if self.stride > 1 else ""
        return f"{self.kernel}×{self.kernel} convolution of {self.channels}{stride}"


@dataclass(frozen=True)
class Dense:
    """A dense layer; a feature map before it is flattened."""

    units: int

    def output_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (self.units,)

    def linear(self, shape: tuple[int, ...], bias: bool) -> nn.Module:
        return nn.Linear(math.prod(shape), self.units, bias=bias)

    def __str__(self) -> str:
        return f"dense {self.units}"


class LayerStack(ModedModule):
    """Hidden layers in a row, each linear → norm → activation, or with the norm last.

    Each layer has a name, under which diagnostics report it; they read the layers through forward
    hooks (`diagnostics.recording`). A subclass may add a norm on the input and a head.
    """

    input_norm: ModedModule | None
    head: nn.Linear | None

    def __init__(
        self,
        shape: tuple[int, ...],
        layers: Sequence[Conv | Dense],
        names: Sequence[str],
        *,
        norm: NormFactory = no_norm,
        activation: Callable[[], nn.Module] = nn.ReLU,
        bias: bool = True,
        norm_last: bool = False,
        prefix: str = "",
    ):
        """`shape` is that of one input, `prefix` begins the name of every layer."""
        super().__init__()
        self.prefix, self.norm_last = prefix, norm_last
        self.names = [prefix + name for name in names]
        self.register_module("input_norm", None)
        self.input_parts: dict[str, slice] = {}
        """Names of groups of channels of the input norm, which diagnostics report apart."""
        self.linears, self.norms = nn.ModuleList(), nn.ModuleList()
        self.activations = nn.ModuleList()
        for layer in layers:
            self.linears.append(layer.linear(shape, bias))
            shape = layer.output_shape(shape)
            self.norms.append(norm(shape))
            self.activations.append(activation())
        self.register_module("head", None)
        (self.units,) = shape

    def run(self, x: Tensor, mode: Mode) -> Float[Tensor, "B ..."]:
        return self.hidden(x, mode)

    def hidden(self, x: Tensor, mode: Mode) -> Float[Tensor, "B units"]:
        """The output of the last hidden layer."""
        for linear, norm, activation in zip(
            self.linears, self.norms, self.activations, strict=True
        ):
            if isinstance(linear, nn.Linear) and x.ndim == 4:
                x = x.permute(0, 2, 3, 1).flatten(1)  # no copy: that is the order in memory
            x = linear(x)
            x = norm(activation(x), mode) if self.norm_last else activation(norm(x, mode))
        return x


Scheme = Literal["kaiming", "lecun", "orthogonal", "xavier"]


def initialise(network: nn.Module, scheme: Scheme, rng: torch.Generator) -> None:
    """Draw all kernels by a scheme with the gain of a ReLU, √2 (`lecun`: 1); biases are 0."""
    for layer in network.modules():
        if not isinstance(layer, nn.Linear | nn.Conv2d):
            continue
        if scheme == "kaiming":
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=rng)
        elif scheme == "lecun":
            _lecun_normal(layer.weight, rng)
        elif scheme == "orthogonal":
            kernel = torch.empty(layer.weight.shape)  # a channels-last one is refused
            nn.init.orthogonal_(kernel, gain=math.sqrt(2), generator=rng)
            layer.weight.data.copy_(kernel)
        else:
            nn.init.xavier_uniform_(layer.weight, gain=math.sqrt(2), generator=rng)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


_DEVIATION_OF_TRUNCATED = 0.87962566103423978
"""Of a standard normal distribution cut off at ±2."""


def _lecun_normal(kernel: Tensor, rng: torch.Generator) -> None:
    """Flax's default: variance 1/fan-in, from a normal distribution cut off at two deviations."""
    deviation = math.sqrt(1 / kernel[0].numel()) / _DEVIATION_OF_TRUNCATED
    nn.init.trunc_normal_(kernel, 0.0, deviation, -2 * deviation, 2 * deviation, generator=rng)
