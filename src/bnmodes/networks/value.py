"""Value networks: linear → norm → ReLU on every hidden layer, and a bare head."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Float, Float32, UInt8
from torch import Tensor, nn

from bnmodes.errors import UsageError
from bnmodes.norm.layers import BatchNorm, LayerNorm, LayerNormAxes, ModedModule, StoredVariance
from bnmodes.protocol import Mode


@dataclass(frozen=True)
class Conv:
    channels: int
    kernel: int
    stride: int


@dataclass(frozen=True)
class Dense:
    units: int


TORSOS = {
    "nature": (Conv(32, 8, 4), Conv(64, 4, 2), Conv(64, 3, 1), Dense(512)),
    "minatar": (Conv(16, 3, 1), Dense(128)),
    "dense": (Dense(256),),
}

ObservationRows = UInt8[Tensor, "B C H W"] | Float32[Tensor, "B numbers"]


@dataclass(frozen=True)
class NormConfig:
    """Which normalisation stands before every ReLU."""

    kind: Literal["none", "ln", "bn"] = "none"
    """No normalisation, LayerNorm or BatchNorm."""
    bn_epsilon: float = 1e-5
    """Added to the variance by BatchNorm."""
    bn_stored_variance: StoredVariance = "unbiased"
    """What BatchNorm stores: `unbiased` is PyTorch's convention, `biased` Flax's."""
    ln_epsilon: float = 1e-6
    """Added to the variance by LayerNorm."""
    ln_axes: LayerNormAxes = "channels"
    """LayerNorm over `channels` at each position, or over `all` of a feature map."""

    def validate(self) -> None:
        for name in ("bn_epsilon", "ln_epsilon"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"norm.{name} is {getattr(self, name)}, but must be above 0.")

    def layer(self, shape: tuple[int, ...]) -> ModedModule:
        """For features [B, *shape]."""
        if self.kind == "bn":
            return BatchNorm(
                shape[0], epsilon=self.bn_epsilon, stored_variance=self.bn_stored_variance
            )
        if self.kind == "ln":
            return LayerNorm(shape, epsilon=self.ln_epsilon, axes=self.ln_axes)
        return Unnormalised()


def torso_names(linears: Iterable[nn.Module]) -> list[str]:
    """conv1, conv2, …, dense."""
    return [
        f"conv{place}" if isinstance(linear, nn.Conv2d) else "dense"
        for place, linear in enumerate(linears, start=1)
    ]


class Unnormalised(ModedModule):
    def run(self, x: Tensor, mode: Mode) -> Tensor:
        return x


class HiddenLayer(NamedTuple):
    """What one layer of a forward was given, and what it made of it."""

    name: str
    norm: ModedModule
    before_norm: Tensor
    """What the norm gets."""
    units: Tensor | None
    """What the activation gives; none where a norm stands on the input, before any unit."""
    channels: slice = slice(None)
    """Those of the norm that `before_norm` holds."""


class Trace(NamedTuple):
    """A forward with all that it computed on its way."""

    layers: list[HiddenLayer]
    features: Float[Tensor, "B units"]
    """What the head reads; of twin critics, the first one's."""
    output: Float[Tensor, "B ..."]
    """Rows first, also of twin critics: [B, 2, outputs]."""


class QNetwork(ModedModule):
    """A torso and a head of `head_shape` numbers for each row, e.g. [actions, atoms]."""

    def __init__(
        self,
        obs_shape: tuple[int, ...],
        head_shape: tuple[int, ...],
        torso: str,
        norm: NormConfig,
        pixel_scale: float,
        generator: torch.Generator,
    ):
        super().__init__()
        self.pixel_scale = pixel_scale
        self.head_shape = head_shape
        self.linears, self.norms = nn.ModuleList(), nn.ModuleList()
        shape = obs_shape
        for layer in TORSOS[torso]:
            if isinstance(layer, Conv):
                linear = nn.Conv2d(shape[0], layer.channels, layer.kernel, layer.stride)
                side = [(length - layer.kernel) // layer.stride + 1 for length in shape[1:]]
                shape = (layer.channels, *side)
            else:
                linear = nn.Linear(math.prod(shape), layer.units)
                shape = (layer.units,)
            self.linears.append(linear)
            self.norms.append(norm.layer(shape))
        self.head = nn.Linear(shape[0], math.prod(head_shape))
        for linear in (*self.linears, self.head):
            nn.init.kaiming_normal_(linear.weight, nonlinearity="relu", generator=generator)
            nn.init.zeros_(linear.bias)
        self.to(memory_format=torch.channels_last)

    def run(self, x: ObservationRows, mode: Mode) -> Float[Tensor, "B *head"]:
        return self.head(self.features(x, mode)).unflatten(1, self.head_shape)

    def features(self, x: ObservationRows, mode: Mode) -> Float[Tensor, "B units"]:
        """What the head reads: the last hidden layer after its ReLU."""
        for layer in self.hidden(x, mode):
            features = layer.units
        return features

    def traced(self, x: ObservationRows, mode: Mode) -> Trace:
        layers = list(self.hidden(x, mode))
        features = layers[-1].units
        return Trace(layers, features, self.head(features).unflatten(1, self.head_shape))

    def hidden(self, x: ObservationRows, mode: Mode) -> Iterator[HiddenLayer]:
        if x.ndim == 4:
            # Planes side by side while they are bytes: a third of the time of converting floats.
            x = (torch.stack(x.unbind(1), -1) * self.pixel_scale).permute(0, 3, 1, 2)
        for name, linear, norm in zip(self.hidden_names, self.linears, self.norms, strict=True):
            if isinstance(linear, nn.Linear) and x.ndim == 4:
                x = x.permute(0, 2, 3, 1).flatten(1)  # no copy: that is the order in memory
            before_norm = linear(x)
            x = norm(before_norm, mode).relu()
            yield HiddenLayer(name, norm, before_norm, x)

    @property
    def hidden_names(self) -> list[str]:
        return torso_names(self.linears)

    def kernels(self) -> dict[str, Tensor]:
        names, linears = [*self.hidden_names, "head"], [*self.linears, self.head]
        return {name: linear.weight for name, linear in zip(names, linears, strict=True)}
