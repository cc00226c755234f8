"""The network of a value learner: a torso and a head with a value for each action."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bnmodes.networks.layers import Scheme, initialise
from bnmodes.networks.norms import NormSettings
from bnmodes.networks.torsos import ObservationBatch, Torso
from bnmodes.protocol import Mode


class QNetwork(Torso):
    """A torso and a head of `head_shape` numbers for each observation, e.g. [actions, atoms].

    Kernels are drawn with `generator` (Kaiming normal; the head's by `head_scheme`), biases are 0.
    """

    head: nn.Linear

    def __init__(
        self,
        obs_shape: tuple[int, ...],
        head_shape: tuple[int, ...],
        torso: str,
        norm: NormSettings,
        pixel_scale: float,
        generator: torch.Generator,
        head_scheme: Scheme = "kaiming",
    ):
        super().__init__(obs_shape, torso, pixel_scale, norm=norm.layer)
        self.head_shape = head_shape
        self.head = nn.Linear(self.units, math.prod(head_shape))
        initialise(self, "kaiming", generator)
        if head_scheme != "kaiming":
            initialise(self.head, head_scheme, generator)
        # The fastest order for convolutions on CPUs; PyTorch's types do not know this argument.
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def run(self, x: ObservationBatch, mode: Mode) -> Float[Tensor, "B *head"]:
        return self.head(self.hidden(x, mode)).unflatten(1, self.head_shape)
