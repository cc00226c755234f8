"""Fixed-norm projection ("WN"): kernels are scaled back to a fixed norm after every optimizer step.

Lyle, Zheng, Khetarpal, Martens, van Hasselt, Pascanu, Dabney: "Normalization and effective learning
rates in reinforcement learning", NeurIPS 2024, arXiv:2407.01800.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class ProjectionSettings:
    """Which kernels are rescaled, and to what norm. Biases, scales and offsets never are."""

    granularity: Literal["none", "neuron", "layer"] = "none"
    """No projection, one norm per output neuron, or one per layer."""
    radius: Literal["unit", "initial"] = "unit"
    """The L2 norm kept: 1, or the one at initialisation."""
    head: bool = False
    """Whether the head's kernel is projected too."""


class Projection:
    """Holds the kernels and their radii; call it after each optimizer step."""

    def __init__(self, settings: ProjectionSettings, network: nn.Module):
        layers = [
            layer
            for name, layer in network.named_modules()
            if isinstance(layer, nn.Linear | nn.Conv2d)
            and (settings.head or name.split(".")[-1] != "head")
        ]
        self.kernels = [] if settings.granularity == "none" else [layer.weight for layer in layers]
        self.per_neuron = settings.granularity == "neuron"
        initial = settings.radius == "initial"
        self.radii = [
            self._norm(k).clone() if initial else torch.ones_like(self._norm(k))
            for k in self.kernels
        ]
        self()

    @torch.no_grad()
    def __call__(self) -> None:
        for kernel, radius in zip(self.kernels, self.radii, strict=True):
            # A kernel that is all zero has no direction and stays where it is.
            kernel.mul_(radius / self._norm(kernel).clamp_min(1e-12))

    @torch.no_grad()
    def _norm(self, kernel: Tensor) -> Tensor:
        """[out, 1, …] per neuron (over height, width and inputs), [1, 1, …] per layer."""
        axes = tuple(range(1 if self.per_neuron else 0, kernel.ndim))
        return torch.linalg.vector_norm(kernel, dim=axes, keepdim=True)
