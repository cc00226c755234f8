"""Normalisation layers whose mode is an argument.

PyTorch's `.train()` couples which statistics a BatchNorm uses with whether it updates the running
ones. Here every call says both: `layer(x, BATCH)` neither reads nor updates running statistics,
`layer(x, RUNNING)` reads them, `Mode(statistics="batch", update=0.01)` uses the batch and updates
them, and `Mode(statistics="running", track=0.01)` updates them first and then reads them.

BatchNorm: Ioffe, Szegedy: "Batch Normalization: Accelerating Deep Network Training by Reducing
Internal Covariate Shift", ICML 2015, arXiv:1502.03167. LayerNorm: Ba, Kiros, Hinton: "Layer
Normalization", 2016, arXiv:1607.06450.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.lazy import LazyModuleMixin

from bnmodes.errors import UsageError
from bnmodes.protocol import RUNNING, Mode, Statistics, alpha

StoredVariance = Literal["unbiased", "biased"]
LayerNormAxes = Literal["channels", "all"]
AnyModule = TypeVar("AnyModule", bound=nn.Module)
_TORCH_LAYERS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


@dataclass(frozen=True, kw_only=True)
class FirstRows(Mode):
    """Batch statistics of the first rows of a batch, with which all of its rows are normalised."""

    statistics: Statistics = "batch"
    rows: int
    """How many rows give the statistics."""


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

    def run(self, x: Any, mode: Mode) -> Tensor:
        raise NotImplementedError


class BatchNorm(ModedModule):
    """BatchNorm over the rows (and positions) of each channel, [B, C] or [B, C, H, W]."""

    mean: Tensor
    variance: Tensor

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
        if isinstance(mode, FirstRows):
            axes = (0, *range(2, x.ndim))
            variance, mean = torch.var_mean(x[: mode.rows], axes, correction=0)
            return self._normalise(x, mean, variance, training=False)
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

    @classmethod
    def from_torch(cls, layer: nn.Module) -> "BatchNorm":
        """The same layer as this `nn.BatchNorm*`, which stores the unbiased variance as we do.

        Its mode is an argument now: `mode_of(layer)` gives the one that it had. Without a scale
        (`affine=False`) the new layer has a frozen one of 1, and without running statistics those
        of a new layer.
        """
        if not isinstance(layer, _BatchNorm) or isinstance(layer, LazyModuleMixin):
            raise UsageError(
                f"{type(layer).__name__} is no nn.BatchNorm layer that knows its size: give "
                "from_torch one that was called before."
            )
        new = BatchNorm(layer.num_features, epsilon=layer.eps)
        pairs = zip(
            (new.weight, new.bias, new.mean, new.variance),
            (layer.weight, layer.bias, layer.running_mean, layer.running_var),
            strict=True,
        )
        return _copied(new, pairs)

    def to_torch(self, axes: int, update: float) -> nn.Module:
        """The same layer as `nn.BatchNorm1d`, `2d` or `3d` (by `axes`), in training mode.

        `update` is α, the weight of a batch in the running statistics, which nn.BatchNorm calls
        momentum. A layer that stores the biased variance keeps its values, so `.eval()` gives what
        RUNNING gave; what nn.BatchNorm writes later is the unbiased variance.
        """
        if axes not in _TORCH_LAYERS:
            raise UsageError(f"there is no nn.BatchNorm{axes}d: give axes 1, 2 or 3.")
        new = _TORCH_LAYERS[axes](len(self.weight), eps=self.epsilon, momentum=alpha(update))
        pairs = zip(
            (new.weight, new.bias, new.running_mean, new.running_var),
            (self.weight, self.bias, self.mean, self.variance),
            strict=True,
        )
        return _copied(new, pairs)

    @classmethod
    def from_flax(cls, params: Mapping, batch_stats: Mapping, epsilon: float = 1e-5) -> "BatchNorm":
        """The same layer as a `flax.linen.BatchNorm` with these variables; it stores the biased
        variance. Flax's momentum m is an update of 1 − m: `Mode(update=alpha(f"flax:{m}"))`."""
        new = BatchNorm(len(batch_stats["mean"]), epsilon=epsilon, stored_variance="biased")
        named = (params.get("scale"), params.get("bias"), batch_stats["mean"], batch_stats["var"])
        theirs = [None if array is None else torch.tensor(np.asarray(array)) for array in named]
        ours = (new.weight, new.bias, new.mean, new.variance)
        return _copied(new, zip(ours, theirs, strict=True))

    def to_flax(self) -> dict[str, dict[str, np.ndarray]]:
        """Variables of a `flax.linen.BatchNorm(epsilon=self.epsilon)`: params and batch_stats.

        A layer that stores the unbiased variance keeps its values, so that evaluation is the same;
        what Flax writes later is the biased variance.
        """
        weight, bias, mean, variance = (
            tensor.detach().cpu().numpy().copy()
            for tensor in (self.weight, self.bias, self.mean, self.variance)
        )
        return {
            "params": {"scale": weight, "bias": bias},
            "batch_stats": {"mean": mean, "var": variance},
        }

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, epsilon={self.epsilon}, stored_variance={self.stored_variance}"


def _copied(new: AnyModule, pairs) -> AnyModule:
    """With the values, kind and place of each second tensor; what there is none of is frozen."""
    pairs = list(pairs)
    like = next(theirs for _, theirs in pairs if theirs is not None)
    with torch.no_grad():
        for ours, theirs in pairs:
            if theirs is None:
                ours.requires_grad_(False)
            else:
                ours.copy_(theirs)
    return new.to(like.device, like.dtype)


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
