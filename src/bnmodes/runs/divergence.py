"""Whether a run's networks still hold numbers."""

from collections.abc import Mapping

import torch
from torch import nn


def networks_are_finite(networks: Mapping[str, nn.Module]) -> bool:
    """Whether no parameter and no running statistic is infinite or NaN."""
    tensors = [
        tensor
        for network in networks.values()
        for tensor in (*network.parameters(), *network.buffers())
        if tensor.is_floating_point()
    ]
    # One answer for all of them: on an accelerator each answer is waited for.
    return not tensors or bool(torch.stack([tensor.isfinite().all() for tensor in tensors]).all())
