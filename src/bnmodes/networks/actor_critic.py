"""Networks of the discrete actor-critics: an encoder of pictures, and dense networks behind it.

A critic is an encoder and two value heads that read its features beside an action vector: one-hot
for an action that was taken, relaxed for one that a policy proposes.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from bnmodes.networks.value import (
    TORSOS,
    Conv,
    Dense,
    HiddenLayer,
    ObservationRows,
    Trace,
    Unnormalised,
    torso_names,
)
from bnmodes.norm.layers import BatchNorm, ModedModule
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
        obs_shape: tuple[int, ...],
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

    def run(self, x: ObservationRows, mode: Mode) -> Float[Tensor, "B units"]:
        for layer in self.hidden(x, mode):
            features = layer.units
        return features

    def hidden(self, x: ObservationRows, mode: Mode) -> Iterator[HiddenLayer]:
        names = torso_names(self.linears)
        if x.ndim == 4:
            x = (torch.stack(x.unbind(1), -1) * self.pixel_scale + self.pixel_offset).movedim(-1, 1)
        for name, linear, norm in zip(names, self.linears, self.norms, strict=True):
            if isinstance(linear, nn.Linear) and x.ndim == 4:
                x = x.permute(0, 2, 3, 1).flatten(1)  # no copy: that is the order in memory
            before_norm = linear(x)
            x = self.activation(norm(before_norm, mode))
            yield HiddenLayer(name, norm, before_norm, x)

    def kernels(self) -> dict[str, Tensor]:
        names = torso_names(self.linears)
        return {name: linear.weight for name, linear in zip(names, self.linears, strict=True)}


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
        for layer in self.hidden(self.input_norm(x, mode), mode):
            x = layer.units
        return self.head(x)

    def hidden(self, x: Float[Tensor, "B inputs"], mode: Mode) -> Iterator[HiddenLayer]:
        """Of inputs that are normalised already."""
        for place, (linear, norm) in enumerate(zip(self.linears, self.norms, strict=True), start=1):
            before_norm = linear(x)
            x = self.activation(norm(before_norm, mode))
            yield HiddenLayer(f"dense{place}", norm, before_norm, x)

    def traced(self, x: Float[Tensor, "B inputs"], mode: Mode) -> Trace:
        layers = list(self.hidden(self.input_norm(x, mode), mode))
        features = layers[-1].units
        if isinstance(self.input_norm, BatchNorm):
            layers.insert(0, HiddenLayer("input", self.input_norm, x, None))
        return Trace(layers, features, self.head(features))

    def kernels(self) -> dict[str, Tensor]:
        hidden = {f"dense{n}": linear.weight for n, linear in enumerate(self.linears, start=1)}
        return hidden | {"head": self.head.weight}


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

    def traced(
        self, rows: tuple[Float[Tensor, "B units"], Float[Tensor, "B actions"]], mode: Mode
    ) -> Trace:
        trace = traced_twins(self.twins, torch.cat(rows, dim=1), mode)
        units = rows[0].shape[1]
        layers = [part for layer in trace.layers for part in _split_input(layer, units)]
        return trace._replace(layers=layers)

    def kernels(self) -> dict[str, Tensor]:
        return twin_kernels(self.twins)


def _split_input(layer: HiddenLayer, units: int) -> list[HiddenLayer]:
    """A norm on the input as two layers: its few action channels would drown among the features."""
    if layer.units is not None:
        return [layer]
    features, action = slice(0, units), slice(units, None)
    return [
        layer._replace(before_norm=layer.before_norm[:, features], channels=features),
        layer._replace(
            name=layer.name.replace("input", "action"),
            before_norm=layer.before_norm[:, action],
            channels=action,
        ),
    ]


def named(prefix: str, layers: Sequence[HiddenLayer]) -> list[HiddenLayer]:
    return [layer._replace(name=f"{prefix}_{layer.name}") for layer in layers]


def named_kernels(prefix: str, kernels: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}_{name}": kernel for name, kernel in kernels.items()}


def traced_twins(twins: nn.ModuleList, x: Float[Tensor, "B inputs"], mode: Mode) -> Trace:
    traces = [twin.traced(x, mode) for twin in twins]
    layers = [
        layer
        for number, trace in enumerate(traces, start=1)
        for layer in named(f"critic{number}", trace.layers)
    ]
    output = torch.stack([trace.output for trace in traces], dim=1)  # [B, 2, outputs]
    return Trace(layers, traces[0].features, output)


def twin_kernels(twins: nn.ModuleList) -> dict[str, Tensor]:
    first, second = (twin.kernels() for twin in twins)
    return named_kernels("critic1", first) | named_kernels("critic2", second)


class Critic(ModedModule):
    """An encoder and the twin heads on its features."""

    def __init__(self, encoder: Encoder, heads: ModedModule):
        super().__init__()
        self.encoder, self.heads = encoder, heads

    def run(
        self, rows: tuple[ObservationRows, Float[Tensor, "B actions"]], mode: Mode
    ) -> Float[Tensor, "2 B outputs"]:
        obs, action = rows
        return self.heads((self.encoder(obs, mode), action), mode)

    def traced(self, rows: tuple[ObservationRows, Float[Tensor, "B actions"]], mode: Mode) -> Trace:
        obs, action = rows
        layers = list(self.encoder.hidden(obs, mode))
        heads = self.heads.traced((layers[-1].units, action), mode)
        return heads._replace(layers=layers + heads.layers)

    def kernels(self) -> dict[str, Tensor]:
        return self.encoder.kernels() | self.heads.kernels()


class Policy(ModedModule):
    """The critic's encoder and the actor on its features, as they act."""

    def __init__(self, encoder: Encoder, actor: DenseNetwork):
        super().__init__()
        self.encoder, self.actor = encoder, actor

    def run(self, obs: ObservationRows, mode: Mode) -> Float[Tensor, "B actions"]:
        return self.actor(self.encoder(obs, mode), mode)

    def traced(self, obs: ObservationRows, mode: Mode) -> Trace:
        layers = list(self.encoder.hidden(obs, mode))
        actor = self.actor.traced(layers[-1].units, mode)
        return actor._replace(layers=layers + named("actor", actor.layers))


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
