"""Torsos: the hidden layers that read an observation, by name.

`nature` is that of Mnih et al., "Human-level control through deep reinforcement learning", Nature
2015; `minatar` that of Young and Tian, "MinAtar", 2019, arXiv:1903.03176; `nature-small` is
for screens of half its height and width, and `minatar-deep` has as many layers as `nature`; `mrq`
is the encoder of MR.Q (arXiv:2501.16142). `auto` chooses by the size of an observation.
"""

from collections.abc import Callable
from typing import Literal, get_args

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from bnmodes.errors import UsageError
from bnmodes.networks.layers import Conv, Dense, LayerStack
from bnmodes.networks.norms import NormFactory, no_norm
from bnmodes.protocol import Mode

ObservationBatch = UInt8[Tensor, "B C H W"] | Float[Tensor, "B n"]
"""Pictures or vectors."""

TORSOS: dict[str, tuple[Conv | Dense, ...]] = {
    "nature": (Conv(32, 8, 4), Conv(64, 4, 2), Conv(64, 3, 1), Dense(512)),
    "nature-small": (Conv(16, 4, 2), Conv(32, 4, 2), Conv(32, 3, 1), Dense(256)),
    "minatar": (Conv(16, 3, 1), Dense(128)),
    "minatar-deep": (Conv(16, 3, 1), Conv(16, 3, 1), Conv(16, 3, 1), Dense(128)),
    "mrq": (Conv(32, 3, 2), Conv(32, 3, 2), Conv(32, 3, 2), Conv(32, 3, 1), Dense(512)),
    "dense": (Dense(256), Dense(256)),
}
"""The layers of each torso."""

TorsoName = Literal["auto", "nature", "nature-small", "minatar", "minatar-deep", "mrq", "dense"]
TORSO_NAMES = get_args(TorsoName)


def resolve_torso(name: str, obs_shape: tuple[int, ...]) -> str:
    """The torso of this name, or that which `auto` chooses: `dense` for vectors, `nature` for
    pictures of at least 36×36 pixels, `minatar` for smaller ones.

    `obs_shape` is (numbers,) or (channels, height, width). A torso that does not exist, or does not
    fit the observations, is refused with a UsageError.
    """
    if name not in TORSO_NAMES:
        raise UsageError(f"there is no torso '{name}': choose one of {', '.join(TORSO_NAMES)}.")
    if name != "auto":
        if refusal := _refusal(name, obs_shape):
            raise UsageError(refusal)
        return name
    candidates = ("dense",) if len(obs_shape) == 1 else ("nature", "minatar")
    for candidate in candidates:
        if _refusal(candidate, obs_shape) is None:
            return candidate
    raise UsageError(
        f"no torso of convolutions fits {_in_words(obs_shape)}: use --torso dense, or larger "
        "pictures."
    )


def torso_description(name: str, obs_shape: tuple[int, ...]) -> str:
    """Its layers in words, e.g. "3×3 convolution of 16, dense 128"."""
    return ", ".join(str(layer) for layer in TORSOS[resolve_torso(name, obs_shape)])


def _refusal(name: str, obs_shape: tuple[int, ...]) -> str | None:
    """Why this torso cannot read observations of this shape; None where it can."""
    least = _least_side(TORSOS[name])
    if least is None or (len(obs_shape) == 3 and min(obs_shape[1:]) >= least):
        return None
    return (
        f"torso '{name}' needs pictures of at least {least}×{least} pixels, but an observation is "
        f"{_in_words(obs_shape)}: use auto, which chooses by size."
    )


def _least_side(layers: tuple[Conv | Dense, ...]) -> int | None:
    """Pixels that a picture must have on each side; None without convolutions."""
    convolutions = [layer for layer in layers if isinstance(layer, Conv)]
    side = 1
    for layer in reversed(convolutions):
        side = (side - 1) * layer.stride + layer.kernel
    return side if convolutions else None


def _in_words(obs_shape: tuple[int, ...]) -> str:
    if len(obs_shape) == 1:
        return f"a vector of {obs_shape[0]} numbers"
    channels, height, width = obs_shape
    return f"a picture of {height}×{width} pixels and {channels} channels"


class Torso(LayerStack):
    """Observations to features, through the layers of a torso.

    Observations are multiplied by `pixel_scale`, and `pixel_offset` is added, before the first
    layer. As an encoder of an actor-critic it is used as it is; `QNetwork` adds a head.
    """

    def __init__(
        self,
        obs_shape: tuple[int, ...],
        torso: str,
        pixel_scale: float,
        pixel_offset: float = 0.0,
        *,
        norm: NormFactory = no_norm,
        activation: Callable[[], nn.Module] = nn.ReLU,
        bias: bool = True,
        norm_last: bool = False,
    ):
        layers = TORSOS[resolve_torso(torso, obs_shape)]
        names = _layer_names(layers)
        super().__init__(
            obs_shape,
            layers,
            names,
            norm=norm,
            activation=activation,
            bias=bias,
            norm_last=norm_last,
        )
        self.pixel_scale, self.pixel_offset = pixel_scale, pixel_offset

    def hidden(self, x: ObservationBatch, mode: Mode) -> Float[Tensor, "B units"]:
        if x.ndim == 4:
            # Channels last while they are bytes: a third of the time of converting floats.
            x = torch.stack(x.unbind(1), -1).movedim(-1, 1)
        x = x * self.pixel_scale
        return super().hidden(x + self.pixel_offset if self.pixel_offset else x, mode)


def _layer_names(layers: tuple[Conv | Dense, ...]) -> list[str]:
    """conv1, conv2, …, dense; or dense1, dense2, … where there are several."""
    several = sum(isinstance(layer, Dense) for layer in layers) > 1
    return [
        f"conv{place}" if isinstance(layer, Conv) else f"dense{place}" if several else "dense"
        for place, layer in enumerate(layers, start=1)
    ]
