"""Normalisation layers whose mode is an argument.

PyTorch's `.train()` couples which moments a BatchNorm reads with whether it writes them. Here every
call says both: `layer(x, BATCH)` reads and writes nothing stored, `layer(x, RUNNING)` reads the
stored moments, `Mode(statistics="batch", update=0.01)` writes too, and
`Mode(statistics="running", track=0.01)` moves the stored moments first and then reads them.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from bnmodes.protocol import RUNNING, Mode

StoredVariance = Literal["unbiased", "biased"]
LayerNormAxes = Literal["channels", "all"]


class ModedModule(nn.Module):
    """A module that is called with a mode; subclasses write `run`, which never sees a track.

    A tracked call is two passes over the whole module that was called, not over each layer in
    turn: in the discarded pass every layer normalises by the batch, as the paper's does.
    """

    def forward(self, x: Tensor | tuple[Tensor, ...], mode: Mode) -> Tensor:
        if mode.track is None:
            return self.run(x, mode)
        with torch.no_grad():
            self.run(x, Mode(statistics="batch", update=mode.track))
        return self.run(x, RUNNING)

    def run(self, x: Tensor | tuple[Tensor, ...], mode: Mode) -> Tensor:
        raise NotImplementedError


class BatchNorm(ModedModule):
    """BatchNorm over the rows (and positions) of each channel, [B, C] or [B, C, H, W]."""

    def __init__(
        self, channels: int, *, epsilon: float = 1e-5, stored_variance: StoredVariance = "unbiased"
    ):
        super().__init__()
        self.epsilon = epsilon
        self.stored_variance = stored_variance
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))

    def run(self, x: Float[Tensor, "B C *HW"], mode: Mode) -> Float[Tensor, "B C *HW"]:
        if mode.statistics == "none":
            raise ValueError(
                "this network has BatchNorm, so its forward must choose batch or running statistics"
            )
        if mode.statistics == "running":
            # Copies, because autograd keeps what it reads and a later pass may write in place.
            return self._normalise(x, self.mean.clone(), self.variance.clone(), training=False)
        if mode.update is None:
            return self._normalise(x, None, None, training=True)
        mean, variance = torch.zeros_like(self.mean), torch.zeros_like(self.variance)
        y = self._normalise(x, mean, variance, training=True)
        if self.stored_variance == "biased":
            count = x.numel() // x.shape[1]
            variance = variance * ((count - 1) / count)  # anew: autograd keeps the other
        self.mean.lerp_(mean, mode.update)
        self.variance.lerp_(variance, mode.update)
        return y

    def _normalise(self, x, mean, variance, training: bool) -> Tensor:
        """With training, `mean` and `variance` receive the batch's own (momentum 1)."""
        return F.batch_norm(x, mean, variance, self.weight, self.bias, training, 1.0, self.epsilon)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, epsilon={self.epsilon}, stored_variance={self.stored_variance}"


class LayerNorm(ModedModule):
    """LayerNorm of each row alone, [B, C] or [B, C, H, W]; any mode gives the same.

    `axes="channels"` normalises over channels at each position; `"all"` over the whole feature map,
    with a scale and an offset for each of its elements.
    """

    def __init__(
        self, shape: tuple[int, ...], *, epsilon: float = 1e-6, axes: LayerNormAxes = "channels"
    ):
        super().__init__()
        self.epsilon = epsilon
        self.axes = axes
        self.norm_shape = tuple(shape[:1] if axes == "channels" else shape)
        self.weight = nn.Parameter(torch.ones(self.norm_shape))
        self.bias = nn.Parameter(torch.zeros(self.norm_shape))

    def run(self, x: Float[Tensor, "B C *HW"], mode: Mode) -> Float[Tensor, "B C *HW"]:
        if self.axes == "channels":
            x = x.movedim(1, -1)  # [B, *HW, C]: a view without a copy where x is channels-last
        y = F.layer_norm(x, self.norm_shape, self.weight, self.bias, self.epsilon)
        return y.movedim(-1, 1) if self.axes == "channels" else y

    def extra_repr(self) -> str:
        return f"{self.norm_shape}, epsilon={self.epsilon}, axes={self.axes}"
