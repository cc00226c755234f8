"""The forward modes for other people's modules with ordinary `nn.BatchNorm*` layers.

How a block changes the layers, tracks and undoes everything is in `forward_mode_blocks`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.modules.lazy import LazyModuleMixin

from bnmodes.errors import UsageError
from bnmodes.norm.forward_mode_blocks import Block
from bnmodes.protocol import Mode, Statistics


@contextmanager
def forward_mode(
    module: nn.Module,
    statistics: Statistics,
    *,
    track: float | None = None,
    update: float | None = None,
) -> Iterator[nn.Module]:
    """Choose what the BatchNorm layers in `module` read and write, for the calls in a block.

        with forward_mode(target_network, "batch"):
            next_q = target_network(next_obs)

    | call | normalises by | running statistics |
    |---|---|---|
    | `forward_mode(net, "batch")` | the rows of this call | left alone |
    | `forward_mode(net, "batch", update=0.01)` | the rows of this call | moved with weight 0.01 |
    | `forward_mode(net, "running")` | the running statistics | left alone |
    | `forward_mode(net, "running", track=0.01)` | the running statistics | moved first, then read |

    It sets every `nn.BatchNorm*` and `SyncBatchNorm`, and `nn.InstanceNorm*` with running
    statistics (there "batch" means each row's own). Dropout and all other layers keep their mode.
    After the block the layers are as they were before, also when it raises; blocks can be nested,
    and the innermost one that holds a layer decides for it.

    `track` runs each call twice: a discarded pass that moves the running statistics, then the pass
    whose output you get. It works when you call `module`, or a part (or a wrapper such as
    DataParallel) that holds all of its BatchNorm layers. A call of fewer layers cannot be run twice
    as a whole and is refused. A compiled module is tracked at compiled speed when the mode is set
    on what `torch.compile` gave you; set on the module inside, tracked calls run uncompiled.

    The mode is kept in the layers, so all threads that call `module` meanwhile get it. A second
    thread may not open a block on the same layers (it is refused), and should not call a tracked
    module (it is refused, unless a tracked call is under way). A copy of the module that is made
    inside the block keeps the block's mode; a tracked module cannot be copied. Activation
    checkpointing runs layers again in `backward`: call it inside the block then.
    """
    mode = Mode(statistics=statistics, track=track, update=update)
    block = Block(module, mode, _layers_for(module, mode))
    block.open()
    try:
        yield module
        block.check_undisturbed()
    finally:
        block.close()


@torch.compiler.disable
def _layers_for(module: nn.Module, mode: Mode) -> list[nn.Module]:
    """The layers to set, or the sentence that says why this mode cannot be."""
    layers: list[nn.Module] = []
    for name, layer in module.named_modules():
        if isinstance(layer, torch.jit.ScriptModule) and "BatchNorm" in layer.original_name:
            raise UsageError(
                f"layer '{name}' is compiled by TorchScript, which fixes its mode: use "
                "forward_mode on the module before torch.jit.script or torch.jit.trace."
            )
        if isinstance(layer, _BatchNorm) or (
            isinstance(layer, _InstanceNorm) and layer.track_running_stats
        ):
            if isinstance(layer, LazyModuleMixin):
                raise UsageError(
                    f"layer '{name}' is lazy and does not know its size yet: call the module once "
                    "before you use forward_mode."
                )
            layers.append(layer)
    if not layers:
        raise UsageError(
            "this module has no nn.BatchNorm layer, so it has no forward mode to set "
            "(bnmodes' own layers take theirs as an argument)"
        )
    if mode.statistics == "none":
        raise UsageError("this module has BatchNorm: choose batch or running statistics")
    if (mode.statistics == "running" or mode.writes) and any(
        layer.running_mean is None for layer in layers
    ):
        raise UsageError(
            "a BatchNorm layer here stores no running statistics (track_running_stats=False): "
            "use batch statistics without update"
        )
    return layers
