"""Normalisation layers whose mode is an argument, and the same modes for other people's modules.

PyTorch's `.train()` couples which moments a BatchNorm reads with whether it writes them. Here every
call says both: `layer(x, BATCH)` reads and writes nothing stored, `layer(x, RUNNING)` reads the
stored moments, `Mode(statistics="batch", update=0.01)` writes too, and
`Mode(statistics="running", track=0.01)` moves the stored moments first and then reads them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from bnmodes.protocol import RUNNING, Mode, Statistics

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


@contextmanager
def forward_mode(
    module: nn.Module,
    statistics: Statistics,
    *,
    track: float | None = None,
    update: float | None = None,
) -> Iterator[nn.Module]:
    """Give every `nn.BatchNorm*` and `SyncBatchNorm` in `module` one of our modes for a block.

    The layers are as they were after the block, also when it raises. With `track`, each call of
    `module` inside the block first runs a discarded pass. Dropout and everything else keep theirs.

        with forward_mode(target_network, "batch"):
            next_q = target_network(next_obs)
    """
    mode = Mode(statistics=statistics, track=track, update=update)
    layers = [layer for layer in module.modules() if isinstance(layer, _BatchNorm)]
    if not layers:
        raise ValueError(
            "this module has no nn.BatchNorm layer, so it has no forward mode to set "
            "(bnmodes' own layers take theirs as an argument)"
        )
    if mode.statistics == "none":
        raise ValueError("this module has BatchNorm: choose batch or running statistics")
    if (mode.statistics == "running" or mode.writes) and any(
        layer.running_mean is None for layer in layers
    ):
        raise ValueError(
            "a BatchNorm layer here stores no moments (track_running_stats=False): "
            "use batch statistics without update"
        )
    before = [(layer.training, layer.momentum, layer.track_running_stats) for layer in layers]
    hook = None
    if mode.track is not None:
        hook = module.register_forward_pre_hook(_discarded_pass(layers, mode), with_kwargs=True)
    _set_layers(layers, mode)
    try:
        yield module
    finally:
        if hook is not None:
            hook.remove()
        for layer, (training, momentum, track_running_stats) in zip(layers, before, strict=True):
            layer.training = training
            layer.momentum = momentum
            layer.track_running_stats = track_running_stats


def _set_layers(layers: list[_BatchNorm], mode: Mode) -> None:
    for layer in layers:
        layer.training = mode.statistics == "batch"
        # PyTorch neither writes nor counts a batch where this flag is off, and still uses it.
        layer.track_running_stats = mode.statistics == "running" or mode.update is not None
        if mode.update is not None:
            layer.momentum = mode.update


def _discarded_pass(layers: list[_BatchNorm], mode: Mode):
    def run_first(module: nn.Module, args, kwargs) -> None:
        _set_layers(layers, Mode(statistics="batch", update=mode.track))
        with torch.no_grad():
            module.forward(*args, **kwargs)
        _set_layers(layers, RUNNING)

    return run_first
