"""The forward modes for other people's modules with ordinary `nn.BatchNorm*` layers."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from bnmodes.protocol import RUNNING, Mode, Statistics


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
