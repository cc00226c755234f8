"""A trained network changes sides: modes and state dicts of `nn.BatchNorm*` and of our layers.

`BatchNorm.from_torch`, `to_torch`, `from_flax` and `to_flax` convert single layers.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from bnmodes.errors import UsageError
from bnmodes.protocol import BATCH, RUNNING, Mode


def mode_of(layer: nn.Module) -> Mode:
    """The mode in which an `nn.BatchNorm*` would run now, by its flags: what `.train()` or
    `.eval()`, `momentum` and `track_running_stats` mean together."""
    flags: Any = layer
    stored = flags.running_mean is not None
    if not layer.training and stored:
        return RUNNING
    if not stored or not flags.track_running_stats:
        return BATCH
    if flags.momentum is None:
        raise UsageError(
            "momentum=None averages all batches with equal weight, which no one mode does: give "
            "the layer a momentum first."
        )
    return Mode(statistics="batch", update=flags.momentum or None)  # 0 moves nothing


def state_from_torch(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict with `nn.BatchNorm*` layers, for the same network with `bnmodes.BatchNorm`."""
    renamed = {}
    for name, tensor in state.items():
        prefix, _, last = name.rpartition(".")
        if last == "num_batches_tracked":
            continue
        last = {"running_mean": "mean", "running_var": "variance"}.get(last, last)
        renamed[f"{prefix}.{last}".lstrip(".")] = tensor
    return renamed


def state_to_torch(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict with `bnmodes.BatchNorm` layers, for the same network with `nn.BatchNorm*`.

    The batches that a layer has seen are not counted here: `num_batches_tracked` becomes 0, which
    only momentum=None reads.
    """
    renamed = {}
    for name, tensor in state.items():
        prefix, dot, last = name.rpartition(".")
        if {f"{prefix}{dot}mean", f"{prefix}{dot}variance"} <= state.keys():
            if last == "variance":
                renamed[f"{prefix}{dot}num_batches_tracked"] = torch.zeros((), dtype=torch.long)
            last = {"mean": "running_mean", "variance": "running_var"}.get(last, last)
        renamed[f"{prefix}{dot}{last}"] = tensor
    return renamed
